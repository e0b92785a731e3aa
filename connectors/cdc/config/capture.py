"""Which tables and columns are captured, how a snapshot selects their rows, and statements that begin a session."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from connect.config.parsing import split_list
from connect.errors import ConfigError


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """Captured schemas, tables, and columns, and their keys. Lists are regular expressions."""

    schema_include: tuple[str, ...] = ()
    schema_exclude: tuple[str, ...] = ()
    table_include: tuple[str, ...] = ()
    table_exclude: tuple[str, ...] = ()
    column_include: tuple[str, ...] = ()
    column_exclude: tuple[str, ...] = ()
    key_columns: tuple[tuple[str, tuple[str, ...]], ...] = ()
    signal_table: tuple[str, str] | None = None
    system: str = "(?!)"
    """A regular expression of the database's own schemas, which are never captured."""


def parse_key_columns(text: str | None, word: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Parses ``message.key.columns``; ``word`` is what contains tables, for messages. Raises ConfigError."""
    rules: list[tuple[str, tuple[str, ...]]] = []
    for rule in (text or "").split(";"):
        if not rule.strip():
            continue
        table, colon, columns = rule.rpartition(":")
        names = tuple(name.strip() for name in columns.split(",") if name.strip())
        if not colon or not table.strip() or not names:
            raise ConfigError.invalid("message.key.columns", text, f"expected <{word}.table regex>:<column>,<column>;...")
        try:
            re.compile(table.strip())
        except re.error as e:
            raise ConfigError.invalid("message.key.columns", table, f"not a regular expression: {e}") from e
        rules.append((table.strip(), names))
    return tuple(rules)


def parse_overrides(text: str | None, config: Mapping[str, str]) -> dict[str, str]:
    """Parses ``snapshot.select.statement.overrides``: statements by table. Raises ConfigError."""
    found: dict[str, str] = {}
    for table in split_list(text):
        key = f"snapshot.select.statement.overrides.{table}"
        if not config.get(key):
            raise ConfigError(f'Missing required configuration "{key}": {table} is listed in its parent key', key=key)
        found[table] = config[key]
    return found


def parse_statements(text: str | None) -> tuple[str, ...]:
    """Parses ``database.initial.statements``: statements separated by ';', where ';;' is a ';' in one."""
    parts = re.split(r"(?<!;);(?!;)", text or "")
    return tuple(part.replace(";;", ";").strip() for part in parts if part.strip())
