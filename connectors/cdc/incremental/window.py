"""The rows of a chunk until they are emitted: changes that the stream sends in the meantime replace them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Generic, TypeVar

from connect.data.struct import Struct
from connectors.cdc.streaming.observers import ChangeT_contra, TableT_contra

RowT = TypeVar("RowT")
"""A row as the chunk keeps it."""
Key = tuple[Any, ...]


class ChunkWindow(ABC, Generic[RowT, TableT_contra, ChangeT_contra]):
    """Rows of one table by the values of their keys, in the order of the chunk."""

    def __init__(self) -> None:
        self._rows: dict[Key, list[RowT]] = {}
        self._has_unknown_change = False

    @property
    def is_empty(self) -> bool:
        """Whether no row is left."""
        return not self._rows

    @property
    def is_stale(self) -> bool:
        """Whether nobody knows which rows a change replaces, so that the chunk must be read again."""
        return self._has_unknown_change

    def rows(self) -> list[RowT]:
        """The rows that are left."""
        return [row for rows in self._rows.values() for row in rows]

    def add(self, key: Key, row: RowT) -> None:
        """Adds a row. The values of ``key`` are :func:`comparable`."""
        self._rows.setdefault(key, []).append(row)

    def remove(self, key: Key | None) -> None:
        """Removes the rows that a change replaces; None if it does not say which."""
        if key is None:
            self._has_unknown_change = True
        else:
            self._rows.pop(key, None)

    def keep(self, old: Key | None, new: Key | None) -> None:
        """Keeps the row of a change that is not emitted. If the chunk has it with the key ``old``, later changes would miss it:
        the chunk must be read again. None if a key is not known."""
        if old is None or (old != new and old in self._rows):
            self.remove(None)

    def clear(self) -> None:
        """Removes all rows: the table is truncated."""
        self._rows.clear()

    @abstractmethod
    def is_of(self, table: TableT_contra) -> bool:
        """Whether the rows are those of a table, of any version."""

    @abstractmethod
    def on_change(self, change: ChangeT_contra, table: TableT_contra, *, keeps_same: bool) -> None:
        """Removes the rows of a change. ``table`` is its version in the stream. With ``keeps_same``, an update that changes
        nothing (:func:`connectors.cdc.schema.row_keys.changes_nothing`) is not emitted, so its row stays."""


def comparable(value: Any) -> Any:
    """A value that can be a key of a dict and equals itself, NaN too."""
    match value:
        case Struct():
            return tuple(_items(value.values))
        case Mapping():
            return frozenset((comparable(k), comparable(v)) for k, v in value.items())
        case list() | tuple():
            return tuple(_items(value))
        case float() | Decimal() if value != value:
            return "NaN"
    return value


def _items(values: Sequence[Any]) -> Iterator[Any]:
    return map(comparable, values)
