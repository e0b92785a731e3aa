"""The rows of a chunk as the server sends them, and the changes of the stream that replace them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from connectors.cdc.incremental.window import ChunkWindow, Key, comparable
from connectors.cdc.schema.column_mapping import key_value
from connectors.cdc.schema.column_type import CONVERSION_ERRORS
from connectors.cdc.schema.row_keys import changes_nothing
from connectors.mysql.schema.table_rows import MySqlTableRows
from connectors.mysql.streaming.observers import RowChange


class RowWindow(ChunkWindow[list[Any], MySqlTableRows, RowChange]):
    """Rows of one version of a table, with the texts of its columns."""

    def __init__(self, table: MySqlTableRows, current_version: Callable[[], MySqlTableRows | None], *, is_exact: bool) -> None:
        """``current_version`` returns the version of the stream's position. ``is_exact``: the rows are those at the position
        where they are emitted, so no change replaces any."""
        super().__init__()
        self.table = table
        self._current_version = current_version
        self._is_exact = is_exact
        columns = table.row_columns
        self._indexes = tuple(i for i, column in enumerate(columns) if column.name in table.identity)
        self._cells = [(i, columns[i].type.decode, columns[i].null_value) for i in self._indexes]

    @property
    def is_stale(self) -> bool:
        """Also whether the table has changed, so that the rows are of another version than those at the position."""
        return super().is_stale or self._current_version() is not self.table

    def add_row(self, row: list[Any]) -> None:
        """Adds a row with the texts of the columns, None for null."""
        try:
            key = [null if (text := row[i]) is None else decode(text) for i, decode, null in self._cells]
        except CONVERSION_ERRORS:
            self.add((object(),), row)  # it is reported when it is emitted, and so are its changes
        else:
            self.add(_comparable_key(key), row)

    def is_of(self, table: MySqlTableRows) -> bool:
        return table.id == self.table.id

    def on_change(self, change: RowChange, table: MySqlTableRows, *, keeps_same: bool) -> None:
        before, after = change
        if self.is_empty or self._is_exact:
            return
        if (before is None and after is None) or table is not self.table:
            self.remove(None)
            return
        if keeps_same and before is not None and after is not None and changes_nothing(before, after, table.key_of):
            self.keep(self._key(before), self._key(after))
            return
        for values in (before, after):
            if values is not None:
                self.remove(self._key(values))

    def _key(self, values: Sequence[Any]) -> Key:
        return _comparable_key([values[i] for i in self._indexes])


def _comparable_key(values: Sequence[Any]) -> Key:
    return tuple(comparable(key_value(value)) for value in values)
