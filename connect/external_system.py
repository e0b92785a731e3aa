"""How a connector says what it can reach with a configuration: steps of a connection test, and the tables to choose from.

A connector class returns an :class:`ExternalSystem` from ``external_system``. It only reads: it creates no slot, table, or file.
``POST /sluice/connection-test`` and ``POST /sluice/data-collections`` call it in an executor, ``sluice doctor`` and ``sluice
tables`` in their own process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeVar

from connect.config.definition import ConfigDef
from connect.config.finding import Finding, Severity
from connect.errors import ConfigError

T = TypeVar("T")

MAX_COLLECTIONS = 10_000
"""How many data collections a listing has at most."""


class EntryForm(Enum):
    """What the entries of a key are that selects data collections."""

    NAME = "name"
    """Names, letter for letter."""
    REGEX = "regex"
    """Regular expressions that must match the whole name."""


class StepState(Enum):
    """The outcome of one step of a connection test."""

    PASSED = "passed"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class ConnectionStep:
    """One step of a connection test, after it was carried out."""

    name: str
    """What was checked: ``Connection``, ``wal_level``, ``Tables``. Differs from those of the other steps."""
    detail: str = ""
    """What was found, or why the step was skipped."""
    findings: Sequence[Finding] = ()
    """What is wrong. ``path`` is the config key to change, ``suggestion`` what to do."""
    is_skipped: bool = False

    @property
    def state(self) -> StepState:
        """FAILED with a finding that is an error, WARNING with another one that is no note."""
        if self.is_skipped:
            return StepState.SKIPPED
        severities = {one.severity for one in self.findings}
        if Severity.ERROR in severities:
            return StepState.FAILED
        return StepState.WARNING if Severity.WARNING in severities else StepState.PASSED

    def as_json(self) -> dict[str, Any]:
        """Returns the members as plain values, as REST shows them."""
        findings = [one.as_json() for one in self.findings]
        return {"name": self.name, "state": self.state.value, "detail": self.detail, "findings": findings}


@dataclass(frozen=True, slots=True)
class DataCollection:
    """A table, view, topic, or folder of files: something that a key of the connector can name."""

    name: str
    """The full name, as messages and topics have it."""
    entry: str
    """What selects it, and nothing else, in keys of :class:`EntryForm` REGEX. Keys of NAME take the name."""
    kind: str = "table"
    database: str | None = None
    schema: str | None = None
    rows: int | None = None
    """An estimate from statistics; None if it is unknown."""
    size_bytes: int | None = None
    """An estimate; None if it is unknown."""
    has_primary_key: bool | None = None
    """None if it is unknown, or the kind has none."""
    details: Mapping[str, str] = field(default_factory=dict)
    """More facts for people, such as ``{"replica identity": "full"}``."""
    findings: Sequence[Finding] = ()
    """What a user who chooses it should know."""

    def as_json(self) -> dict[str, Any]:
        """Returns the members as plain values, as REST shows them."""
        return {
            "name": self.name,
            "entry": self.entry,
            "kind": self.kind,
            "database": self.database,
            "schema": self.schema,
            "rows": self.rows,
            "size_bytes": self.size_bytes,
            "has_primary_key": self.has_primary_key,
            "details": dict(self.details),
            "findings": [one.as_json() for one in self.findings],
        }


class ExternalSystem(Protocol):
    """The system behind one configuration. Creating it does not connect.

    One method at a time is called, on one thread, except ``cancel``. Errors are those of :mod:`connect.errors`.
    """

    def test_connection(self) -> Iterator[ConnectionStep]:
        """Yields each step after it was carried out, in the order in which a start of the connector needs them. After a step
        without which others make no sense, the iterator ends. An error that is raised becomes a failed step."""

    def data_collections(self) -> Sequence[DataCollection]:
        """Returns what the keys of ``Connector.collection_keys`` can name, or a sink writes to, sorted by name; at most
        ``MAX_COLLECTIONS + 1``, so that callers know whether there are more. Other keys than those of the connection may be
        missing or wrong. Raises ConnectError if the system cannot be read."""

    def cancel(self) -> None:
        """Makes a running call end soon, in any way. Called from another thread, at most once; does not block."""

    def close(self) -> None:
        """Releases everything. Called once, on the thread of the other calls."""


def error_finding(code: str, message: str, path: str | None = None, suggestion: str | None = None) -> Finding:
    """A finding that prevents the connector from working."""
    return Finding(code, Severity.ERROR, message, path, suggestion)


def warning_finding(code: str, message: str, path: str | None = None, suggestion: str | None = None) -> Finding:
    """A finding that may be intended."""
    return Finding(code, Severity.WARNING, message, path, suggestion)


def parse_leniently(
    config: Mapping[str, str],
    definition: ConfigDef,
    parse: Callable[[Mapping[str, str]], T],
    is_of_connection: Callable[[str], bool],
    required: Mapping[str, str],
) -> tuple[T, list[Finding]]:
    """Parses a configuration that may be incomplete: without its wrong keys, and with ``required`` in place of missing ones.

    Returns what ``parse`` returns, and findings about wrong keys. Raises ConfigError for keys of the connection, without which
    nothing can be asked.
    """
    wrong = {value.name: value.errors[0] for value in definition.validate(config) if value.errors}
    for name, error in wrong.items():
        if is_of_connection(name):
            raise ConfigError(error, key=name)
    findings = [error_finding("invalid-config", error, name) for name, error in wrong.items()]
    usable = {**required, **{key: value for key, value in config.items() if key not in wrong}}
    try:
        return parse(usable), findings
    except ConfigError as e:
        if e.key is None or is_of_connection(e.key):
            raise
        kept = {key: value for key, value in usable.items() if is_of_connection(key)}
        return parse({**required, **kept}), [*findings, error_finding("invalid-config", e.message, e.key)]


def regex_entry(*parts: str) -> str:
    """Returns a regular expression that matches ``parts`` joined by dots, for a comma-separated key.

    The dots between plain names stay as they are, which is how people write it: ``public.orders``. A comma is written as
    ``\\x2c``.
    """
    dot = r"\." if any("." in part for part in parts) else "."
    return dot.join(re.sub(r"[\\^$.|?*+()\[\]{}]", r"\\\g<0>", part).replace(",", r"\x2c") for part in parts)
