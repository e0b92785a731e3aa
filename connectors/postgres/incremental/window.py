"""The rows of a chunk as lines of COPY, and the changes of the stream that replace them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from connectors.cdc.incremental.window import ChunkWindow, Key, comparable
from connectors.cdc.schema.column_mapping import RowColumn
from connectors.cdc.schema.column_type import CONVERSION_ERRORS
from connectors.cdc.schema.row_keys import changes_nothing, identifying_columns
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.streaming import pgoutput
from connectors.postgres.streaming.pgoutput import Delete, Insert, Update


class CopyWindow(ChunkWindow[str, TableRows, Insert | Update | Delete]):
    """Lines of one version of a table."""

    def __init__(self, table: TableRows) -> None:
        super().__init__()
        self.table = table
        self._identity = identifying_columns(table.table.key, [column.name for column in table.columns])
        self._cells = [(i, column) for i, column in enumerate(table.columns) if column.name in self._identity]

    def add_line(self, line: str, cells: Sequence[str | None]) -> None:
        """Adds a line of COPY; ``cells`` are its columns."""
        self.add(tuple(_comparable_value(column, cells[i]) for i, column in self._cells), line)

    def is_of(self, table: TableRows) -> bool:
        own = self.table.table
        return (table.table.schema, table.table.name) == (own.schema, own.name)

    def on_change(self, change: Insert | Update | Delete, table: TableRows, *, keeps_same: bool) -> None:
        if self.is_empty:
            return
        old = None if isinstance(change, Insert) else change.old
        new = None if isinstance(change, Delete) else change.new
        if keeps_same and isinstance(change, Update) and _is_unchanged(table, change):
            assert old is not None
            self.keep(self._key(table, old, old), self._key(table, change.new, old))
            return
        if not isinstance(change, Insert) and not self._is_identified(change, table):
            self.remove(None)
            return
        for sent in (old, new):
            if sent is not None:
                self.remove(self._key(table, sent, old))

    def _is_identified(self, change: Update | Delete, table: TableRows) -> bool:
        """Whether the server has sent all that identifies the old row: the whole row, or the key that it has, or keeps."""
        is_whole = change.old is not None and not change.old_is_key
        return is_whole or set(self._identity) <= set(table.table.key)

    def _key(self, table: TableRows, sent: pgoutput.Tuple, old: pgoutput.Tuple | None) -> Key | None:
        by_name = {column.name: column for column in table.columns}
        key: list[Any] = []
        for _, known in self._cells:
            column = by_name.get(known.name)
            if column is None or column.source_index >= len(sent):
                return None
            value = _sent(sent, old, column.source_index)
            if value is pgoutput.UNCHANGED:
                return None
            key.append(_comparable_value(column, value.decode() if isinstance(value, bytes) else None))
        return tuple(key)


def _comparable_value(column: RowColumn, text: str | None) -> Any:
    """The value of a column, unmasked. One that cannot be converted is its text: it is reported when it is emitted."""
    if text is None:
        return None
    try:
        return comparable(column.key_type.decode(text))
    except CONVERSION_ERRORS:
        return text


def _sent(sent: pgoutput.Tuple, old: pgoutput.Tuple | None, index: int) -> pgoutput.Value:
    value = sent[index]
    return old[index] if value is pgoutput.UNCHANGED and old is not None else value


def _is_unchanged(table: TableRows, update: pgoutput.Update) -> bool:
    """Whether the stream does not emit an update if it skips those that change nothing."""
    old = update.old
    if old is None or update.old_is_key:
        return False
    try:
        return changes_nothing(_values(table, old, old), _values(table, update.new, old), table.key_of)
    except CONVERSION_ERRORS:  # it is reported in its place
        return False


def _values(table: TableRows, sent: pgoutput.Tuple, old: pgoutput.Tuple) -> list[Any]:
    """The values as events have them: a mask hides nulls, too."""
    found: list[Any] = []
    for column in table.columns:
        value = _sent(sent, old, column.source_index)
        found.append(comparable(column.type.decode(value.decode())) if isinstance(value, bytes) else column.null_value)
    return found
