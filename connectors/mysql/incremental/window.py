"""The rows of a chunk as their values, and the changes of the stream that replace them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from connect.errors import DataError
from connectors.cdc.incremental.window import ChunkWindow, Key, comparable
from connectors.mysql.schema.table_rows import MySqlTableRows
from connectors.mysql.streaming.observers import RowChange


@dataclass(frozen=True, slots=True, eq=False)
class ErrantRow:
    """A row that cannot be converted: its values as the server sends them, None for null."""

    cells: Sequence[Any]
    error: DataError


class RowWindow(ChunkWindow[list[Any] | ErrantRow, MySqlTableRows, RowChange]):
    """Rows of one version of a table."""

    def __init__(self, table: MySqlTableRows, current_version: Callable[[], MySqlTableRows | None], *, is_exact: bool) -> None:
        """``current_version`` returns the version of the stream's position. ``is_exact``: the rows are those at the position
        where they are emitted, so no change replaces any."""
        super().__init__()
        self.table = table
        self._current_version = current_version
        self._is_exact = is_exact

    @property
    def is_stale(self) -> bool:
        """Whether the table has changed, so that the rows are of another version than those at the position."""
        return super().is_stale or self._current_version() is not self.table

    def add_row(self, values: list[Any]) -> None:
        self.add(self._key(values), values)

    def add_errant(self, row: ErrantRow) -> None:
        self.add((row,), row)

    def is_of(self, table: MySqlTableRows) -> bool:
        return table.id == self.table.id

    def on_change(self, change: RowChange, table: MySqlTableRows, *, keeps_same: bool) -> None:
        before, after = change
        if self.is_empty or self._is_exact or (keeps_same and before is not None and before == after):
            return
        if before is None and after is None:
            self.remove(None)
        for values in (before, after):
            if values is not None:
                self.remove(self._key(values) if table is self.table else None)

    def _key(self, values: Sequence[Any]) -> Key:
        """The key of a row; without one, all values, because no other column identifies it."""
        key = self.table.key_of(values)
        return tuple(map(comparable, values if key is None else key))
