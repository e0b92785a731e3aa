"""Filters captured tables and columns by regular expressions, anchored and case-insensitive as in Debezium."""

from __future__ import annotations

import re
from collections.abc import Iterable

from connectors.cdc.config.capture import CaptureSettings


def _compile(patterns: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(p, re.IGNORECASE) for p in patterns)


def _matches(patterns: tuple[re.Pattern[str], ...], name: str) -> bool:
    return any(p.fullmatch(name) for p in patterns)


class Filters:
    """Decides by name only; the same for snapshot and streaming."""

    def __init__(self, capture: CaptureSettings) -> None:
        self._schema_include, self._schema_exclude = _compile(capture.schema_include), _compile(capture.schema_exclude)
        self._table_include, self._table_exclude = _compile(capture.table_include), _compile(capture.table_exclude)
        self._column_include, self._column_exclude = _compile(capture.column_include), _compile(capture.column_exclude)
        self._system = re.compile(capture.system)
        self._signal_table = capture.signal_table
        self._keys = [(re.compile(table, re.IGNORECASE), columns) for table, columns in capture.key_columns]

    def is_signal_table(self, schema: str, table: str) -> bool:
        """Whether it is the signal table: it is captured, but not part of snapshots."""
        return (schema, table) == self._signal_table

    def captures_schema(self, schema: str) -> bool:
        """Whether tables of the schema can be captured."""
        if self._system.fullmatch(schema):
            return False
        if self._schema_include and not _matches(self._schema_include, schema):
            return False
        return not _matches(self._schema_exclude, schema)

    def captures_table(self, schema: str, table: str) -> bool:
        if self.is_signal_table(schema, table):
            return True
        if not self.captures_schema(schema):
            return False
        name = f"{schema}.{table}"
        if self._table_include:
            return _matches(self._table_include, name)
        return not _matches(self._table_exclude, name)

    def captures_column(self, schema: str, table: str, column: str) -> bool:
        name = f"{schema}.{table}.{column}"
        if self._column_include:
            return _matches(self._column_include, name)
        return not _matches(self._column_exclude, name)

    def key_columns(self, schema: str, table: str) -> tuple[str, ...] | None:
        """The key columns that ``message.key.columns`` sets for the table, or None."""
        name = f"{schema}.{table}"
        return next((columns for table_regex, columns in self._keys if table_regex.fullmatch(name)), None)


def name_matches(patterns: Iterable[str], name: str) -> bool:
    """Whether a regular expression matches the whole name."""
    return any(re.fullmatch(p, name, re.IGNORECASE) for p in patterns)
