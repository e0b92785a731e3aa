"""Lets others follow the stream: the rows of some tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from connectors.cdc.streaming.offset_extras import OffsetExtras
from connectors.mysql.schema.model import TableId
from connectors.mysql.schema.table_rows import MySqlTableRows


class RowChange(NamedTuple):
    """A change of a row: its values before and after, as events have them; None for a row that is created or deleted."""

    before: Sequence[Any] | None
    after: Sequence[Any] | None


class BinlogRowObserver(Protocol):
    """Follows the changes of tables, before their events are emitted. Must not use the network."""

    def observes(self, rows: MySqlTableRows) -> bool:
        """Whether it wants the changes of a table."""

    def on_change(self, rows: MySqlTableRows, change: RowChange) -> None:
        """A change that is emitted next."""

    def on_truncate(self, rows: MySqlTableRows) -> None:
        """The table is truncated."""

    def on_disconnect(self) -> None:
        """The connection is closed. Changes that were emitted are not passed on again."""


class BinlogObservers(OffsetExtras):
    """What a stream passes on. It lives as long as the task."""

    def __init__(self) -> None:
        super().__init__()
        self._observers: list[BinlogRowObserver] = []
        self._tables: dict[TableId, MySqlTableRows] = {}
        self.watched: dict[TableId, BinlogRowObserver] = {}
        """The observers of tables."""

    def add(self, observer: BinlogRowObserver) -> None:
        self._observers.append(observer)

    def bind(self, id: TableId, rows: MySqlTableRows) -> None:
        """Changes of a table have this version from now on."""
        self._tables[id] = rows
        self.rebind()

    def rebind(self) -> None:
        """Asks the observers again what they want."""
        self.watched.clear()
        for id, rows in self._tables.items():
            for observer in self._observers:
                if observer.observes(rows):
                    self.watched[id] = observer

    def reset(self) -> None:
        """The connection is closed."""
        self._tables.clear()
        self.watched.clear()
        for observer in self._observers:
            observer.on_disconnect()

    def truncate(self, id: TableId) -> None:
        """Passes on that a table is truncated."""
        if id in self.watched:
            self.watched[id].on_truncate(self._tables[id])
