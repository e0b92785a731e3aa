"""What the connection tests of all connectors do: parse what is right of a configuration, and run checks as steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from connect.config.definition import ConfigDef
from connect.config.finding import Finding
from connect.errors import ConfigError, ConnectError
from connect.external_system import ConnectionStep, error_finding

MOST_NAMED: Final = 5
"""How many tables a message names."""
Settings = TypeVar("Settings")


def parse_usable(
    config: Mapping[str, str],
    keys: ConfigDef,
    parse: Callable[[Mapping[str, str]], Settings],
    required: Mapping[str, str],
    is_of_connection: Callable[[str], bool],
) -> tuple[Settings, list[Finding]]:
    """Parses what is right. Returns findings about other keys than those of the connection; raises ConfigError for those.

    ``required`` has values for keys that the connection does not need, if they are missing.
    """
    wrong = {value.name: value.errors[0] for value in keys.validate(config) if value.errors}
    for name, error in wrong.items():
        if is_of_connection(name):
            raise ConfigError(error, key=name)
    usable = {key: value for key, value in config.items() if key not in wrong}
    findings = [error_finding("invalid-config", error, name) for name, error in wrong.items()]
    try:
        return parse({**required, **usable}), findings
    except ConfigError as e:
        if e.key is None or is_of_connection(e.key):
            raise
        kept = {key: value for key, value in usable.items() if is_of_connection(key)}
        return parse({**required, **kept}), [*findings, error_finding("invalid-config", e.message, e.key)]


def check_step(name: str, check: Callable[[], str], find: Callable[[ConnectError], Finding]) -> ConnectionStep:
    """Runs a check, which returns what it found; ``find`` describes its error."""
    try:
        return ConnectionStep(name, check())
    except ConnectError as e:
        return ConnectionStep(name, findings=(find(e),))


def list_names(names: Sequence[str]) -> str:
    """Lists names, the first ones of many."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
