"""The rows of a chunk as lines of COPY, and the changes of the stream that replace them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from connectors.cdc.incremental.window import ChunkWindow, Key, comparable
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.streaming import pgoutput
from connectors.postgres.streaming.pgoutput import Delete, Insert, Update


class CopyWindow(ChunkWindow[str, TableRows, Insert | Update | Delete]):
    """Lines of one table by the values of ``key_columns``."""

    def __init__(self, table: TableRows, key_columns: Sequence[str]) -> None:
        super().__init__()
        self.table = table
        self._key_columns = tuple(key_columns)
        indexes = {column.name: i for i, column in enumerate(table.columns)}
        self._cells = [(indexes[name], table.columns[indexes[name]].key_type.decode) for name in key_columns]

    def add_line(self, line: str, cells: Sequence[str | None]) -> None:
        """Adds a line of COPY; ``cells`` are its columns."""
        self.add(tuple(None if (text := cells[i]) is None else comparable(decode(text)) for i, decode in self._cells), line)

    def is_of(self, table: TableRows) -> bool:
        own = self.table.table
        return (table.table.schema, table.table.name) == (own.schema, own.name)

    def on_change(self, change: Insert | Update | Delete, table: TableRows, *, keeps_same: bool) -> None:
        if self.is_empty:
            return
        old = None if isinstance(change, Insert) else change.old
        new = None if isinstance(change, Delete) else change.new
        if keeps_same and isinstance(change, Update) and _is_unchanged(table, change):
            return
        for sent in (old, new):
            if sent is not None:
                self.remove(self._key(table, sent, old))

    def _key(self, table: TableRows, sent: pgoutput.Tuple, old: pgoutput.Tuple | None) -> Key | None:
        by_name = {column.name: column for column in table.columns}
        key: list[Any] = []
        for name in self._key_columns:
            column = by_name.get(name)
            if column is None or column.source_index >= len(sent):
                return None
            value = _sent(sent, old, column.source_index)
            if value is pgoutput.UNCHANGED:
                return None
            key.append(value if not isinstance(value, bytes) else comparable(column.key_type.decode(value.decode())))
        return tuple(key)


def _sent(sent: pgoutput.Tuple, old: pgoutput.Tuple | None, index: int) -> pgoutput.Value:
    value = sent[index]
    return old[index] if value is pgoutput.UNCHANGED and old is not None else value


def _is_unchanged(table: TableRows, update: pgoutput.Update) -> bool:
    old = update.old
    return old is not None and not update.old_is_key and _values(table, update.new, old) == _values(table, old, old)


def _values(table: TableRows, sent: pgoutput.Tuple, old: pgoutput.Tuple) -> list[Any]:
    values = [(column, _sent(sent, old, column.source_index)) for column in table.columns]
    return [comparable(column.type.decode(value.decode())) if isinstance(value, bytes) else value for column, value in values]
