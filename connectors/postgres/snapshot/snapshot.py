"""The snapshot: rows of all captured tables as of one moment, by COPY, as 'r' events.

The server sends one row a CopyData message. Rows are gathered, decoded as one block of text, and split: escapes and nulls are
looked at only in lines that have a backslash (see rows.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect import crash_points
from connect.data.struct import Struct
from connect.record import SourceRecord
from connectors.postgres.config import Settings
from connectors.postgres.connection import Connection, quoted
from connectors.postgres.offsets import snapshot_offset, source_partition
from connectors.postgres.schema import envelope as env
from connectors.postgres.schema.row_decoder import SnapshotDecoder, TableRows, snapshot_decoder

log = logging.getLogger(__name__)

BATCH_ROWS = 10_000
BATCH_BYTES = 8 << 20
_LONGEST_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class SnapshotPoint:
    """The moment of a snapshot: everything that committed before ``lsn`` is in it, and nothing else."""

    lsn: int
    tx_id: int | None


@dataclass(frozen=True, slots=True)
class _Row:
    """The last row read: it waits until it is known whether another follows."""

    table: int
    line: str
    is_first: bool


def begin_snapshot(connection: Connection, exported: str | None) -> int | None:
    """Begins the transaction in which everything is read; ``exported`` is a slot's snapshot.

    Returns a transaction id for the source blocks: the next to be given out, as Debezium has it.
    """
    connection.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    if exported is not None:
        connection.execute("SET TRANSACTION SNAPSHOT '" + exported.replace("'", "''") + "'")
    rows = connection.query("select txid_snapshot_xmax(txid_current_snapshot())")
    return int(rows[0][0]) if rows and rows[0][0] else None


class Snapshot:
    """Reads the tables one after another. ``read`` gives the next events; ``done`` says that it gave the last."""

    def __init__(
        self, connection: Connection, tables: Sequence[TableRows], point: SnapshotPoint, settings: Settings, version: str
    ) -> None:
        self._connection = connection
        self._tables = tables
        self._point = point
        self._settings = settings
        self._version = version
        self._partition = source_partition(settings.topic_prefix)
        self._at = -1
        self._reading = False
        self._decoders: dict[int, SnapshotDecoder] = {}
        self._kept: _Row | None = None
        self._table_rows = 0
        self.rows = 0
        self.done = False

    @property
    def tables_done(self) -> int:
        return len(self._tables) if self.done else max(0, self._at if self._reading else self._at + 1)

    @property
    def table(self) -> str | None:
        """The table being read."""
        return str(self._tables[self._at].table) if 0 <= self._at < len(self._tables) else None

    def read(self) -> list[SourceRecord]:
        """The next events; an empty list when none came in time. Raises ConnectionLostError, Interrupted."""
        if not self._reading and not self._open_next():
            self.done = True
            return self._release(last=True)
        lines = self._fetch()
        if not lines:
            return []
        out: list[SourceRecord] = []
        kept = self._kept
        if kept is not None and kept.table != self._at:
            out = self._release(last=False)
        elif kept is not None and kept.is_first:
            out = self._events(self._at, [kept.line], self._first_marker())
        elif kept is not None:
            lines.insert(0, kept.line)
        *ready, newest = lines
        if self._table_rows == 0 and ready:
            out += self._events(self._at, ready[:1], self._first_marker())
            del ready[0]
        self._kept = _Row(self._at, newest, is_first=self._table_rows == 0 and len(lines) == 1)
        if ready:
            out += self._events(self._at, ready, "true")
        self._table_rows += len(lines)
        return out

    def _first_marker(self) -> str:
        return "first" if self._at == 0 else "first_in_data_collection"

    def _release(self, *, last: bool) -> list[SourceRecord]:
        """The event of the row that waited: the last of its table, or of all."""
        kept, self._kept = self._kept, None
        if kept is None:
            return []
        if last:
            return self._events(kept.table, [kept.line], "last")
        # A table of one row is Debezium's "first" when it is the first table, else "last_in_data_collection".
        marker = "first" if kept.is_first and kept.table == 0 else "last_in_data_collection"
        return self._events(kept.table, [kept.line], marker)

    def _events(self, table: int, lines: list[str], marker: str) -> list[SourceRecord]:
        rows = self._tables[table]
        decode = self._decoders.get(table)
        if decode is None:
            decode = self._decoders[table] = snapshot_decoder(rows)
        ns = time.time_ns()
        us = ns // 1000
        source = self._source(rows, marker, ns)
        offset: Mapping[str, Any] = snapshot_offset(self._point.lsn, self._point.tx_id, us, last=marker == "last")
        self.rows += len(lines)
        return decode(lines, source, self._partition, offset, us // 1000, us, ns)

    def _source(self, rows: TableRows, marker: str, ns: int) -> Struct:
        """One source block for a run of rows: they differ in nothing it holds."""
        settings, table = self._settings, rows.table
        values = env.source_values(self._version, settings.topic_prefix, settings.address.database, table.schema, table.name)
        values[env.TS_MS], values[env.TS_US], values[env.TS_NS] = ns // 1_000_000, ns // 1000, ns
        values[env.SNAPSHOT] = marker
        values[env.TX_ID], values[env.LSN] = self._point.tx_id, self._point.lsn
        values[env.SEQUENCE] = f'[null,"{self._point.lsn}"]'
        return Struct(env.SOURCE, values)

    def _open_next(self) -> bool:
        self._at += 1
        if self._at >= len(self._tables):
            return False
        rows = self._tables[self._at]
        self._connection.query(copy_statement(rows, self._settings))
        self._reading = True
        self._table_rows = 0
        log.info("snapshot: reading %s (%d of %d)", rows.table, self._at + 1, len(self._tables))
        return True

    def _fetch(self) -> list[str]:
        """Lines of the table at hand; notes when it has ended."""
        pgconn = self._connection.pgconn
        get = pgconn.get_copy_data
        parts: list[memoryview] = []
        add = parts.append
        size = 0
        deadline = time.monotonic() + _LONGEST_POLL_S
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
                    self._reading = False
                    break
        except Exception as e:
            if e.__class__.__module__.startswith("psycopg"):
                raise self._connection.lost() from e
            raise
        if not self._reading:
            self._connection.finish_copy()
        crash_points.point("postgres.snapshot")
        lines = b"".join(parts).decode().split("\n")
        lines.pop()
        return lines


def copy_statement(rows: TableRows, settings: Settings) -> str:
    """COPY of the captured columns, of the table alone (not of tables that inherit from it) or of what an override selects."""
    table = rows.table
    columns = ", ".join(quoted(column.name) for column in rows.columns)
    override = settings.snapshot.overrides.get(str(table))
    if override is not None:
        return f"COPY (SELECT {columns} FROM ({override.strip().rstrip(';')}) AS selected) TO STDOUT"
    name = f"{quoted(table.schema)}.{quoted(table.name)}"
    only = "" if table.kind == "p" else "ONLY "
    return f"COPY (SELECT {columns} FROM {only}{name}) TO STDOUT"
