"""A snapshot in progress: its connection, its point in time, and its tables."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from connect.record import SourceRecord
from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import Connection
from connectors.postgres.offsets import format_lsn
from connectors.postgres.schema.catalog import estimated_rows
from connectors.postgres.schema.filters import Filters, name_matches
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.sessions import DatabaseSessions
from connectors.postgres.snapshot.reader import SnapshotPoint, SnapshotReader
from connectors.postgres.snapshot.transaction import read_next_transaction_id, start_snapshot
from connectors.postgres.streaming import publications, slots
from connectors.postgres.streaming.captured_tables import CapturedTables

log = logging.getLogger(__name__)


class SnapshotSession:
    """Reads the captured tables as of one point in time."""

    def __init__(
        self, settings: PostgresConfig, filters: Filters, tables: CapturedTables, sessions: DatabaseSessions, version: str
    ) -> None:
        self._settings = settings
        self._filters = filters
        self._tables = tables
        self._version = version
        self._connection = sessions.open()
        self._row_estimates: dict[str, int] = {}
        self._reader: SnapshotReader | None = None
        self._started_at = time.monotonic()
        self.lsn = 0

    def start(self, created: slots.CreatedSlot | None) -> None:
        """Fixes the point in time: the start of a slot that exported its snapshot, or now. Reads no rows yet."""
        connection, settings = self._connection, self._settings
        tables = start_snapshot(connection, created.snapshot if created else None, self._read_tables, settings)
        self.lsn = created.consistent_lsn if created else slots.current_lsn(connection)
        estimates = {str(rows.table): estimated_rows(connection, rows.table) for rows in tables}
        if settings.snapshot.order != "disabled":
            tables.sort(key=lambda rows: estimates[str(rows.table)], reverse=settings.snapshot.order == "descending")
        self._row_estimates = estimates
        point = SnapshotPoint(self.lsn, read_next_transaction_id(connection))
        self._reader = SnapshotReader(connection, tables, point, settings, self._version, self._tables.make_nullable)

    def _read_tables(self, connection: Connection) -> list[TableRows]:
        """Reads the tables of the snapshot as of the connection's transaction."""
        include = self._settings.snapshot.include
        tables = publications.read_captured_tables(connection, self._settings, self._filters)
        return [
            self._tables.rows_of(table)
            for table in tables
            if (not include or name_matches(include, str(table))) and not self._filters.is_signal_table(table.schema, table.name)
        ]

    @property
    def done(self) -> bool:
        return self._reader is not None and self._reader.done

    def restart_clock(self) -> None:
        """The first row is read now: changes before the snapshot have been streamed."""
        self._started_at = time.monotonic()

    def read(self) -> Sequence[SourceRecord]:
        """Returns the next events; after the last ones, ``done`` is set and the connection is closed."""
        assert self._reader is not None
        records = self._reader.read()
        if self._reader.done:
            self.close()
            log.info("snapshot: %d rows of %d tables as of %s", self._reader.rows, len(self._row_estimates), format_lsn(self.lsn))
        return records

    def progress(self) -> Mapping[str, Any]:
        reader = self._reader
        if reader is None:
            return {}
        elapsed = max(time.monotonic() - self._started_at, 0.001)
        return {
            "tables_done": reader.tables_done,
            "tables_total": len(self._row_estimates),
            "table": reader.table,
            "rows": reader.rows,
            "rows_estimate": max(sum(self._row_estimates.values()), reader.rows),
            "rate": round(reader.rows / elapsed, 1),
        }

    def close(self) -> None:
        """Closes the connection. May be called twice."""
        self._connection.close()
