"""Checks of a whole configuration, after those of its single keys: what the connectors of this package have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from connect.config.definition import ConfigValue
from connect.errors import ConfigError, ConnectError
from connectors.jdbc.urls.connection_url import parse_connection_url

URL = "connection.url"
CrossKeyCheck = Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]]
"""From the values of the keys that are right by themselves, None for others: which key has which problem with the others."""


def add_cross_key_errors(values: list[ConfigValue], problems: CrossKeyCheck, parse: Callable[[], object]) -> list[ConfigValue]:
    """The checked keys with the problems that they have with each other; when there are none, with what ``parse`` raises."""
    known = {value.name: value for value in values}
    parsed = {value.name: None if value.errors else value.value for value in values}
    wrong = {value.name for value in values if value.errors}
    for key, problem in problems(parsed):
        if key not in wrong:
            known[key].errors.append(problem)
    url = parsed.get(URL)
    if url and not known[URL].errors and "${" not in url:
        # Told beside what is wrong with other keys, which would keep ``parse`` from being asked.
        add_error_of(values, lambda: parse_connection_url(url, None, None, {}))
    return values if has_errors(values) else add_error_of(values, parse)


def add_error_of(values: list[ConfigValue], attempt: Callable[[], object]) -> list[ConfigValue]:
    """The checked keys with what ``attempt`` raises, at the key to blame, else at the URL."""
    known = {value.name: value for value in values}
    try:
        attempt()
    except ConnectError as e:
        key = e.key if isinstance(e, ConfigError) else None
        known[key if key in known else URL].errors.append(e.message)
    return values


def has_errors(values: Iterable[ConfigValue]) -> bool:
    return any(value.errors for value in values)
