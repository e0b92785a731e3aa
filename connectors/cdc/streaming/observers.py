"""Lets others follow the stream: the rows of some tables, and the point at which a position is reached."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from connect.record import SourceRecord
from connectors.cdc.streaming.offset_extras import OffsetExtras

KeyT = TypeVar("KeyT", bound=Hashable)
"""What identifies a table in the stream."""
TableT = TypeVar("TableT")
"""A version of a table."""
TableT_contra = TypeVar("TableT_contra", contravariant=True)
ChangeT = TypeVar("ChangeT")
"""A change of a row."""
ChangeT_contra = TypeVar("ChangeT_contra", contravariant=True)
MarkT = TypeVar("MarkT")
"""A position in the stream that can be compared with others."""


class RowObserver(Protocol[TableT_contra, ChangeT_contra]):
    """Follows the changes of tables, before their events are emitted. Must not use the network."""

    def observes(self, rows: TableT_contra) -> bool:
        """Whether it wants the changes of a table."""

    def on_change(self, rows: TableT_contra, message: ChangeT_contra) -> None:
        """A change that is emitted next."""

    def on_truncate(self, rows: TableT_contra) -> None:
        """The table is truncated."""

    def on_disconnect(self) -> None:
        """The connection is closed. On the next one, transactions are sent again, but changes that were emitted are not passed
        on again."""


class ChangeObservers(OffsetExtras, Generic[KeyT, TableT, ChangeT, MarkT]):
    """What a stream passes on. It lives as long as the task."""

    def __init__(self, no_mark: MarkT) -> None:
        """``no_mark`` is behind every position."""
        super().__init__()
        self._observers: list[RowObserver[TableT, ChangeT]] = []
        self._tables: dict[KeyT, TableT] = {}
        self._no_mark = no_mark
        self.watched: dict[KeyT, RowObserver[TableT, ChangeT]] = {}
        """The observers of tables."""
        self.mark = no_mark
        """``on_mark`` is called between two transactions, once all that commit before this position are emitted."""
        self.on_mark: Callable[[Mapping[str, Any]], list[SourceRecord]] = lambda offset: []
        """Gets the offset of the position, and returns records to emit there."""

    @property
    def awaits_mark(self) -> bool:
        return self.mark is not self._no_mark

    def clear_mark(self) -> None:
        """Awaits no position."""
        self.mark = self._no_mark

    def add(self, observer: RowObserver[TableT, ChangeT]) -> None:
        self._observers.append(observer)

    def bind(self, key: KeyT, rows: TableT | None) -> None:
        """Changes of a table have this version from now on; None if they are not captured."""
        if rows is None:
            self._tables.pop(key, None)
        else:
            self._tables[key] = rows
        self.rebind()

    def rebind(self) -> None:
        """Asks the observers again what they want."""
        self.watched.clear()
        for key, rows in self._tables.items():
            for observer in self._observers:
                if observer.observes(rows):
                    self.watched[key] = observer

    def reset(self) -> None:
        """The connection is closed."""
        self._tables.clear()
        self.watched.clear()
        self.clear_mark()
        for observer in self._observers:
            observer.on_disconnect()

    def truncate(self, key: KeyT) -> None:
        """Passes on that a table is truncated."""
        if key in self.watched:
            self.watched[key].on_truncate(self._tables[key])

    def reach_mark(self, offset: Mapping[str, Any]) -> list[SourceRecord]:
        """The position is reached."""
        self.clear_mark()
        return self.on_mark(offset)
