"""Signals in the signal table."""

from __future__ import annotations

import logging
from collections.abc import Callable

from connectors.cdc.schema.filters import Filters
from connectors.cdc.signals.actions import Signal
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.streaming.pgoutput import Delete, Insert, Update

log = logging.getLogger(__name__)

_COLUMNS = 3


class SignalTable:
    """Passes on the rows that are inserted into the signal table (a RowObserver)."""

    def __init__(self, filters: Filters, handle: Callable[[Signal], None]) -> None:
        self._filters = filters
        self._handle = handle

    def observes(self, rows: TableRows) -> bool:
        return self._filters.is_signal_table(rows.table.schema, rows.table.name)

    def on_change(self, rows: TableRows, message: Insert | Update | Delete) -> None:
        if not isinstance(message, Insert):
            return
        if len(rows.columns) != _COLUMNS:
            log.warning("signal table %s must have 3 columns (id, type, data), but has %d", rows.table, len(rows.columns))
            return
        values = [message.new[column.source_index] for column in rows.columns]
        id_, type_, data = (value.decode() if isinstance(value, bytes) else None for value in values)
        self._handle(Signal(id_ or "", type_ or "", data))

    def on_truncate(self, rows: TableRows) -> None:
        """Does nothing: only inserted rows are signals."""

    def on_disconnect(self) -> None:
        """Does nothing: signals that are emitted are not sent again."""
