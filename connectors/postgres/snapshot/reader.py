"""Reads the snapshot: rows of all captured tables as of one point in time, with COPY, as 'r' events.

The server sends one row per CopyData message. Rows are collected, decoded as one block of text, and split; escapes and nulls are
handled only in lines with a backslash (see schema/row_decoder.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect import crash_points
from connect.data.struct import Struct
from connect.record import SourceRecord
from connect.text_records import TextRecords
from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import Connection
from connectors.postgres.offsets import snapshot_offset, source_partition
from connectors.postgres.schema import envelope as env
from connectors.postgres.schema.row_decoder import NullInRequiredError, SnapshotDecoder, TableRows, snapshot_decoder
from connectors.postgres.schema.value_errors import CONVERSION_ERRORS, name_copy_value
from connectors.postgres.snapshot.text_batches import EventTime, TextBatches, Traits
from connectors.postgres.snapshot.transaction import select_statement

log = logging.getLogger(__name__)

BATCH_ROWS = 2_000
BATCH_BYTES = 8 << 20
_MAX_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class SnapshotPoint:
    """The point in time of a snapshot: it contains exactly the transactions that committed before ``lsn``."""

    lsn: int
    tx_id: int | None


@dataclass(frozen=True, slots=True)
class _PendingRow:
    """The last row read: its marker depends on whether another row follows."""

    table: int
    line: str
    is_first: bool


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines that were read together."""

    lines: list[str]
    traits: Traits


class SnapshotReader:
    """Reads tables one after another. ``read`` returns the next events; ``done`` is set after the last."""

    def __init__(
        self,
        connection: Connection,
        tables: Sequence[TableRows],
        point: SnapshotPoint,
        settings: PostgresConfig,
        version: str,
        make_nullable: Callable[[TableRows, str], TableRows],
    ) -> None:
        self._connection = connection
        self._tables = list(tables)
        self._make_nullable = make_nullable
        self._point = point
        self._settings = settings
        self._version = version
        self._partition = source_partition(settings.topic_prefix)
        self._table_index = -1
        self._is_reading = False
        self._decoders: dict[int, SnapshotDecoder] = {}
        self._batches: dict[int, TextBatches] = {}
        self._pending_row: _PendingRow | None = None
        self._table_rows = 0
        self.rows = 0
        self.done = False

    @property
    def tables_done(self) -> int:
        return len(self._tables) if self.done else max(0, self._table_index if self._is_reading else self._table_index + 1)

    @property
    def table(self) -> str | None:
        """The current table."""
        return str(self._tables[self._table_index].table) if 0 <= self._table_index < len(self._tables) else None

    def read(self) -> Sequence[SourceRecord]:
        """Returns the next events; an empty list after a timeout. Raises ConnectionLostError and WaitInterrupted."""
        if not self._is_reading and not self._open_next():
            self.done = True
            return self._flush_pending_row(last=True)
        block = self._fetch()
        lines, traits = block.lines, block.traits
        if not lines:
            return []
        out: list[SourceRecord] = []
        pending = self._pending_row
        if pending is not None and pending.table != self._table_index:
            out = self._flush_pending_row(last=False)
        elif pending is not None and pending.is_first:
            out = self._events(self._table_index, [pending.line], self._first_marker())
        elif pending is not None:
            lines.insert(0, pending.line)
            traits |= Traits.of(pending.line.encode())
        *ready, newest = lines
        if self._table_rows == 0 and ready:
            out += self._events(self._table_index, ready[:1], self._first_marker())
            del ready[0]
        self._pending_row = _PendingRow(self._table_index, newest, is_first=self._table_rows == 0 and len(lines) == 1)
        self._table_rows += len(lines)
        if not ready:
            return out
        batch = self._batch(self._table_index, ready, traits)
        return [*out, *batch] if out else batch

    def _first_marker(self) -> str:
        return "first" if self._table_index == 0 else "first_in_data_collection"

    def _flush_pending_row(self, *, last: bool) -> list[SourceRecord]:
        """The event of the pending row: the last of its table, or of the snapshot."""
        pending, self._pending_row = self._pending_row, None
        if pending is None:
            return []
        if last:
            return self._events(pending.table, [pending.line], "last")
        # For a table with one row, Debezium uses "first" in the first table, else "last_in_data_collection".
        marker = "first" if pending.is_first and pending.table == 0 else "last_in_data_collection"
        return self._events(pending.table, [pending.line], marker)

    def _events(self, table: int, lines: list[str], marker: str) -> list[SourceRecord]:
        time_, source, offset = self._shared(table, marker)
        self.rows += len(lines)
        return self._decoded(table, lines, source, offset, time_)

    def _batch(self, table: int, lines: list[str], traits: Traits) -> TextRecords:
        """The events of rows between the first and the last one of a table."""
        batches = self._batches.get(table)
        if batches is None:
            batches = self._batches[table] = TextBatches(self._tables[table])
        time_, source, offset = self._shared(table, "true")
        self.rows += len(lines)

        def create() -> list[SourceRecord]:
            return self._decoded(table, lines, source, offset, time_)

        return batches.records(lines, traits, source, time_, self._partition, offset, create)

    def _shared(self, table: int, marker: str) -> tuple[EventTime, Struct, Mapping[str, Any]]:
        """Time, source block, and offset of events."""
        ns = time.time_ns()
        us = ns // 1000
        source = self._source(self._tables[table], marker, ns)
        return (
            EventTime(us // 1000, us, ns),
            source,
            snapshot_offset(self._point.lsn, self._point.tx_id, us, last=marker == "last"),
        )

    def _decoded(
        self, table: int, lines: list[str], source: Struct, offset: Mapping[str, Any], time_: EventTime
    ) -> list[SourceRecord]:
        """Creates records. A column that is required but has a null becomes optional, for these lines and all later ones."""
        while True:
            rows = self._tables[table]
            try:
                return self._decoder(table)(lines, source, self._partition, offset, time_.ms, time_.us, time_.ns)
            except NullInRequiredError as e:
                self._tables[table] = self._make_nullable(rows, e.column)
                self._decoders.pop(table, None)
                self._batches.pop(table, None)
            except CONVERSION_ERRORS as e:
                raise name_copy_value(rows, lines, e) from e

    def _decoder(self, table: int) -> SnapshotDecoder:
        decode = self._decoders.get(table)
        if decode is None:
            decode = self._decoders[table] = snapshot_decoder(self._tables[table])
        return decode

    def _source(self, rows: TableRows, marker: str, ns: int) -> Struct:
        """A source block shared by consecutive rows."""
        settings, table = self._settings, rows.table
        values = env.source_values(self._version, settings.topic_prefix, settings.address.database, table.schema, table.name)
        values[env.TS_MS], values[env.TS_US], values[env.TS_NS] = ns // 1_000_000, ns // 1000, ns
        values[env.SNAPSHOT] = marker
        values[env.TX_ID], values[env.LSN] = self._point.tx_id, self._point.lsn
        values[env.SEQUENCE] = f'[null,"{self._point.lsn}"]'
        return Struct(env.SOURCE, values)

    def _open_next(self) -> bool:
        self._table_index += 1
        if self._table_index >= len(self._tables):
            return False
        rows = self._tables[self._table_index]
        self._connection.query(f"COPY ({select_statement(rows, self._settings)}) TO STDOUT")
        self._is_reading = True
        self._table_rows = 0
        log.info("snapshot: reading %s (%d of %d)", rows.table, self._table_index + 1, len(self._tables))
        return True

    def _fetch(self) -> _Block:
        """Reads lines of the current table; detects its end."""
        pgconn = self._connection.pgconn
        get = pgconn.get_copy_data
        parts: list[memoryview] = []
        add = parts.append
        size = 0
        deadline = time.monotonic() + _MAX_POLL_S
        try:
            while len(parts) < BATCH_ROWS and size < BATCH_BYTES:
                length, view = get(1)
                if length > 0:
                    add(view)
                    size += length
                elif length == 0:
                    if not self._connection.wait(deadline - time.monotonic()):
                        break
                    pgconn.consume_input()
                else:
                    self._is_reading = False
                    break
        except Exception as e:
            if e.__class__.__module__.startswith("psycopg"):
                raise self._connection.lost_error() from e
            raise
        if not self._is_reading:
            self._connection.finish_copy()
        crash_points.point("postgres.snapshot")
        data = b"".join(parts)
        lines = data.decode().split("\n")
        lines.pop()
        return _Block(lines, Traits.of(data))
