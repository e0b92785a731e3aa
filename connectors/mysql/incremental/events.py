"""The 'r' events of incremental snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.data.struct import Struct
from connect.record import SourceRecord
from connectors.cdc.snapshot.offsets import OffsetStep
from connectors.mysql import offsets
from connectors.mysql.config import MySqlConfig
from connectors.mysql.incremental.window import RowWindow
from connectors.mysql.offsets import BinlogPosition
from connectors.mysql.schema import source_block as block
from connectors.mysql.schema.table_rows import MySqlTableRows
from connectors.mysql.snapshot.events import MySqlTableEvents

_NO_POSITION = BinlogPosition("", 0)


class IncrementalMySqlTableEvents(MySqlTableEvents):
    """Events of one table. ``position`` is the offset of the stream's position, at which the rows are as in the table."""

    position: Mapping[str, Any]

    def _source(self, marker: str, now_ns: int) -> Struct:
        source, position = super()._source(marker, now_ns), self.position
        values = source.values
        values[block.SERVER_ID] = position.get(offsets.SERVER_ID) or 0
        values[block.FILE], values[block.POS] = position[offsets.FILE], position[offsets.POSITION]
        return source


class IncrementalRowEvents:
    """Builds records from the rows of chunks."""

    def __init__(self, settings: MySqlConfig, version: str) -> None:
        self._settings = settings
        self._version = version
        self._table: MySqlTableRows | None = None
        self._events: IncrementalMySqlTableEvents | None = None

    def records(self, window: RowWindow, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[SourceRecord]:
        """The events of the rows that are left: the last one has the offset ``after``, the others ``before``."""
        rows = window.rows()
        if not rows:
            return []
        if self._events is None or self._table is not window.table:
            self._table = window.table
            self._events = IncrementalMySqlTableEvents(window.table, _NO_POSITION, self._settings, self._version)
        self._events.position = before
        return self._events.records(rows, "incremental", OffsetStep(before, after))
