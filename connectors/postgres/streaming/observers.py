"""Lets others follow the stream: the rows of some tables, and the point at which a position is reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from connect.record import SourceRecord
from connectors.cdc.streaming.offset_extras import OffsetExtras
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.streaming import pgoutput
from connectors.postgres.streaming.pgoutput import Delete, Insert, Update

NO_MARK = 1 << 64


def _ignore(xid: int) -> None:
    """Takes no note of a transaction."""


class RowObserver(Protocol):
    """Follows the changes of tables, before their events are emitted. Must not use the network."""

    def observes(self, rows: TableRows) -> bool:
        """Whether it wants the changes of a table."""

    def on_change(self, rows: TableRows, message: Insert | Update | Delete) -> None:
        """A change that is emitted next."""

    def on_truncate(self, rows: TableRows) -> None:
        """The table is truncated."""

    def on_disconnect(self) -> None:
        """The connection is closed. On the next one, transactions are sent again, but changes that were emitted are not passed
        on again."""


class StreamObservers(OffsetExtras):
    """What a stream passes on. It lives as long as the task."""

    def __init__(self) -> None:
        super().__init__()
        self._observers: list[RowObserver] = []
        self._relations: dict[int, TableRows] = {}
        self._last: tuple[int, int] | None = None
        self.watched: dict[int, RowObserver] = {}
        """The observers of relations, by OID."""
        self.mark_lsn = NO_MARK
        """``on_mark`` is called between two transactions, once all that commit before this LSN are emitted."""
        self.on_mark: Callable[[Mapping[str, Any]], list[SourceRecord]] = lambda offset: []
        """Gets the offset of the position, and returns records to emit there."""
        self.on_begin: Callable[[int], None] = _ignore
        """Gets the ID of each transaction that the server starts to send."""

    @property
    def awaits_mark(self) -> bool:
        return self.mark_lsn != NO_MARK

    def add(self, observer: RowObserver) -> None:
        self._observers.append(observer)

    def bind(self, oid: int, rows: TableRows | None) -> None:
        """A relation is sent from now on; None if it is not captured."""
        if rows is None:
            self._relations.pop(oid, None)
        else:
            self._relations[oid] = rows
        self.rebind()

    def rebind(self) -> None:
        """Asks the observers again what they want."""
        self.watched.clear()
        for oid, rows in self._relations.items():
            for observer in self._observers:
                if observer.observes(rows):
                    self.watched[oid] = observer

    def reset(self) -> None:
        """The connection is closed."""
        self._relations.clear()
        self.watched.clear()
        self.mark_lsn = NO_MARK
        for observer in self._observers:
            observer.on_disconnect()

    def change(self, oid: int, rows: TableRows, data: bytes, position: tuple[int, int]) -> None:
        """Passes on a change of a watched relation, once per ``position``: transaction and number of the change."""
        if position == self._last:
            return
        self._last = position
        message = pgoutput.decode(data)
        assert isinstance(message, Insert | Update | Delete)
        self.watched[oid].on_change(rows, message)

    def truncate(self, oids: Iterable[int]) -> None:
        """Passes on that relations are truncated."""
        for oid in oids:
            if oid in self.watched:
                self.watched[oid].on_truncate(self._relations[oid])

    def stop_recording(self) -> None:
        """Ignores transactions from now on."""
        self.on_begin = _ignore

    def reach_mark(self, offset: Mapping[str, Any]) -> list[SourceRecord]:
        """The position is reached."""
        self.mark_lsn = NO_MARK
        return self.on_mark(offset)
