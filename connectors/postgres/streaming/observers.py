"""What the stream passes on to those who follow it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from connectors.cdc.streaming.observers import ChangeObservers
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.streaming import pgoutput
from connectors.postgres.streaming.pgoutput import Delete, Insert, Update

NO_MARK = 1 << 64


def _ignore(xid: int) -> None:
    """Takes no note of a transaction."""


class StreamObservers(ChangeObservers[int, TableRows, Insert | Update | Delete, int]):
    """Tables are identified by OID; the mark is an LSN."""

    def __init__(self) -> None:
        super().__init__(NO_MARK)
        self._last: tuple[int, int] | None = None
        self.on_begin: Callable[[int], None] = _ignore
        """Gets the ID of each transaction that the server starts to send."""

    def change(self, oid: int, rows: TableRows, data: bytes, position: tuple[int, int]) -> None:
        """Passes on a change of a watched relation, once per ``position``: transaction and number of the change."""
        if position == self._last:
            return
        self._last = position
        message = pgoutput.decode(data)
        assert isinstance(message, Insert | Update | Delete)
        self.watched[oid].on_change(rows, message)

    def truncate_all(self, oids: Iterable[int]) -> None:
        """Passes on that relations are truncated."""
        for oid in oids:
            self.truncate(oid)

    def stop_recording(self) -> None:
        """Ignores transactions from now on."""
        self.on_begin = _ignore
