"""Checks across config keys, after those of single keys, shared by the connectors of this package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from connect.config.definition import ConfigValue
from connect.errors import ConfigError, ConnectError
from connectors.jdbc.urls.connection_url import parse_connection_url

URL = "connection.url"
CrossKeyCheck = Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]]
"""Takes the values of the valid keys, None for others; yields each key that conflicts with other keys, with the message."""


def add_cross_key_errors(values: list[ConfigValue], problems: CrossKeyCheck, parse: Callable[[], object]) -> list[ConfigValue]:
    """Adds the errors that keys have with each other; if there are none, the error that ``parse`` raises."""
    known = {value.name: value for value in values}
    parsed = {value.name: None if value.errors else value.value for value in values}
    wrong = {value.name for value in values if value.errors}
    for key, problem in problems(parsed):
        if key not in wrong:
            known[key].errors.append(problem)
    url = parsed.get(URL)
    if url and not known[URL].errors and "${" not in url:
        # Report it next to errors of other keys, which would prevent ``parse`` from running.
        add_error_of(values, lambda: parse_connection_url(url, None, None, {}))
    return values if has_errors(values) else add_error_of(values, parse)


def add_error_of(values: list[ConfigValue], attempt: Callable[[], object]) -> list[ConfigValue]:
    """Adds the error that ``attempt`` raises to the key that it names, or else to the URL."""
    known = {value.name: value for value in values}
    try:
        attempt()
    except ConnectError as e:
        key = e.key if isinstance(e, ConfigError) else None
        known[key if key in known else URL].errors.append(e.message)
    return values


def has_errors(values: Iterable[ConfigValue]) -> bool:
    return any(value.errors for value in values)
