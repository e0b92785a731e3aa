"""The 'r' events of incremental snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.data.struct import Struct
from connect.record import SourceRecord
from connectors.cdc.snapshot.offsets import OffsetStep
from connectors.postgres.config import PostgresConfig
from connectors.postgres.offsets import COMMIT_LSN
from connectors.postgres.schema import source_block as block
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.snapshot.events import SnapshotPoint, TableEvents
from connectors.postgres.snapshot.text_batches import EventTime
from connectors.postgres.streaming.captured_tables import CapturedTables

_NO_POINT = SnapshotPoint(0, None)


def sequence_at(position: Mapping[str, Any]) -> str:
    """The ``source.sequence`` of rows read at a position: the end of the last commit, as changes have it, and the LSN. The
    position may have moved on since that commit; a row must not be newer than the next change."""
    commit_lsn = position.get(COMMIT_LSN, position["lsn_commit"])
    return f'["{commit_lsn}","{position["lsn"]}"]' if commit_lsn else f'[null,"{position["lsn"]}"]'


class IncrementalTableEvents(TableEvents):
    """Events of one table. ``position`` is the offset of the stream's position, at which the rows are as in the table."""

    position: Mapping[str, Any]

    def _source(self, marker: str, time_: EventTime) -> Struct:
        source, position = super()._source(marker, time_), self.position
        values, lsn = source.values, position["lsn"]
        values[block.TX_ID], values[block.LSN], values[block.XMIN] = (
            position.get("txId"),
            lsn,
            position.get("xmin"),
        )
        values[block.SEQUENCE] = sequence_at(position)
        return source


class IncrementalEvents:
    """Builds records from lines of COPY."""

    def __init__(self, settings: PostgresConfig, tables: CapturedTables, version: str) -> None:
        self._settings = settings
        self._tables = tables
        self._version = version
        self._rows: TableRows | None = None
        self._events: IncrementalTableEvents | None = None

    def records(
        self, rows: TableRows, lines: list[str], before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> list[SourceRecord]:
        """The events of lines: the last one has the offset ``after``, the others ``before``."""
        if not lines:
            return []
        if self._events is None or self._rows is not rows:
            self._rows = rows
            self._events = IncrementalTableEvents(rows, _NO_POINT, self._settings, self._version, self._tables.make_nullable)
        self._events.position = before
        return self._events.records(lines, "incremental", OffsetStep(before, after))
