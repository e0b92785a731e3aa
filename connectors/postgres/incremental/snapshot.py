"""Incremental snapshots: reads tables in chunks while their changes are streamed.

A chunk is read as of one point in time. Changes that are streamed until everything that its snapshot contains is emitted replace
its rows; then the rest is emitted as 'r' events. So an event never precedes one that it is older than. As in DBLog and Debezium,
but the window closes at an LSN, and a chunk is read again if the stream was ahead of its snapshot (see visibility.py).
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from connect import crash_points
from connect.record import SourceRecord
from connectors.cdc.incremental.context import DataCollection, IncrementalContext
from connectors.cdc.incremental.notifications import Notifier
from connectors.cdc.incremental.requests import SnapshotRequest, dump_requests, matches_collection, parse_requests
from connectors.cdc.schema.filters import Filters
from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import Connection
from connectors.postgres.incremental.chunks import Chunk, ChunkDelayed, ChunkReader, TableSkipped
from connectors.postgres.incremental.events import IncrementalEvents
from connectors.postgres.incremental.positions import JAVA_KEYS
from connectors.postgres.incremental.visibility import StreamedTransactions
from connectors.postgres.incremental.watermarks import Watermarks
from connectors.postgres.schema.catalog import CapturedTable
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.sessions import DatabaseSessions
from connectors.postgres.streaming.captured_tables import CapturedTables
from connectors.postgres.streaming.observers import NO_MARK, StreamObservers
from connectors.postgres.streaming.pgoutput import Delete, Insert, Update

log = logging.getLogger(__name__)

_REQUESTS = "incremental_snapshot_requests"
"""Our own key in offsets: signals whose tables are not known yet."""
_BACKFILL = "backfill"
"""Takes the place of a signal's ID."""
_RETRY_S = 0.05
_LOG_DELAY_S = 10.0


class IncrementalSnapshot:
    """Runs incremental snapshots, one table after another (a RowObserver and a SnapshotControl)."""

    def __init__(
        self,
        settings: PostgresConfig,
        filters: Filters,
        tables: CapturedTables,
        sessions: DatabaseSessions,
        observers: StreamObservers,
        notifier: Notifier,
        version: str,
    ) -> None:
        self._skips_unchanged = settings.skip_unchanged
        self._sessions = sessions
        self._observers = observers
        self._notifier = notifier
        self._context = IncrementalContext(JAVA_KEYS)
        self._streamed = StreamedTransactions()
        self._reader = ChunkReader(settings, filters, tables, self._streamed)
        self._events = IncrementalEvents(settings, tables, version)
        self._watermarks = Watermarks(settings)
        self._requests: list[SnapshotRequest] = []
        self._connection: Connection | None = None
        self._chunk: Chunk | None = None
        self._delay = _Delay()
        self._rows = 0
        observers.add(self)
        observers.on_mark = self._emit

    def load(self, offset: Mapping[str, Any]) -> None:
        """Continues the snapshot of a stored offset."""
        self._context = IncrementalContext(JAVA_KEYS, offset)
        self._requests = parse_requests(offset.get(_REQUESTS))
        if self._context.is_running:
            log.info("incremental snapshot: continuing with %s", ", ".join(map(str, self._context.collections)))
        self._store()

    def _store(self) -> None:
        """Makes the state part of all offsets from here on."""
        extras = dict(self._context.offset())
        if self._requests:
            extras[_REQUESTS] = dump_requests(self._requests)
        self._observers.set_offset_extras(self, extras)

    @property
    def is_active(self) -> bool:
        """Whether there is something to do soon, even if no change arrives."""
        return bool(self._requests) or (self._context.is_running and not self._context.is_paused)

    def progress(self) -> Mapping[str, Any]:
        context = self._context
        if not context.is_running and not self._requests:
            return {}
        scan = context.scan
        state = {
            "tables": [str(c) for c in context.collections] or [name for r in self._requests for name in r.collections],
            "rows": self._rows,
            "paused": context.is_paused,
            "last_key": scan.end,
            "maximum_key": scan.maximum,
        }
        return {"incremental_snapshot": state}

    # --- control --------------------------------------------------------------------------------------------------------------

    def execute(self, request: SnapshotRequest) -> None:
        self._requests.append(request)
        self._store()

    def backfill(self, tables: Sequence[str]) -> None:
        """Reads tables that are captured from now on."""
        log.info("backfill: reading the existing rows of %s with an incremental snapshot", ", ".join(tables))
        self.execute(SnapshotRequest(_BACKFILL, tuple(map(re.escape, tables))))

    def stop(self, signal_id: str, collections: tuple[str, ...]) -> None:
        context = self._context
        if not context.is_running and not self._requests:
            log.warning("signal %s: no incremental snapshot runs", signal_id)
            return
        self._requests = [r for r in self._requests if collections and not set(r.collections) <= set(collections)]
        stopped = [c for c in context.collections if not collections or _matches_any(collections, c.schema, c.name)]
        log.info("incremental snapshot: stopping %s", ", ".join(map(str, stopped)) or "no table")
        if stopped and stopped[0] is context.current:
            self._drop_chunk()
            self._rows = 0
        signal = context.signal_id or signal_id
        context.remove(stopped)
        self._notifier.aborted(signal, stopped)
        self._store()

    def pause(self) -> None:
        if self._context.is_running and not self._context.is_paused:
            log.info("incremental snapshot: paused")
            self._context.pause()
            self._notifier.paused(self._context)
            self._store()

    def resume(self) -> None:
        if self._context.is_running and self._context.is_paused:
            log.info("incremental snapshot: resumed")
            self._context.resume()
            self._notifier.resumed(self._context)
            self._store()

    # --- chunks ---------------------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Reads the next chunk, unless one waits for the stream. Raises ConnectionLostError."""
        while self._requests:
            self._expand(self._requests[0])
        context = self._context
        if self._chunk is not None or context.is_paused:
            return
        if not context.is_running:
            if self._streamed.is_started:
                self._finish()
            return
        if not self._delay.is_over:
            return
        try:
            self._read_chunk(context.current)
            self._delay.reset()
        except ChunkDelayed as e:
            self._delay.start(f"incremental snapshot: waiting with {context.current}: {e}")
        except TableSkipped as e:
            log.warning("incremental snapshot: skipping %s: %s", context.current, e)
            self._complete_table(e.status)
            self._store()

    def _expand(self, request: SnapshotRequest) -> None:
        """Finds the tables of a request."""
        tables = self._reader.find_tables(self._session())
        if self._streamed.is_started:
            # Changes from before a table joined the publication are not streamed, even if they are committed later.
            self._streamed.note_writers(self._session())
        collections: list[DataCollection] = []
        for pattern in request.collections:
            found = [t for t in tables if matches_collection(pattern, t.schema, t.name)]
            if not found and request.signal_id != _BACKFILL:
                log.warning("signal %s: no captured table matches %s", request.signal_id, pattern)
            collections += [_collection(request, table) for table in found]
        was_running = self._context.is_running
        added = self._context.add(dict.fromkeys(collections), request.signal_id) if collections else []
        self._requests.remove(request)
        self._store()
        if added and not was_running:
            self._notifier.started(self._context)

    def _read_chunk(self, collection: DataCollection) -> None:
        connection = self._session()
        if not self._streamed.is_started:
            self._observers.on_begin = self._streamed.add
            self._streamed.start(connection)
        self._watermarks.open(self._sessions.writer(), collection)
        chunk = self._reader.read(connection, collection, self._context.scan)
        self._watermarks.close(self._sessions.writer())
        if chunk.scan != self._context.scan:
            self._context.start_scan(chunk.scan)
            if chunk.scan.end is None and chunk.scan.maximum is not None:
                log.info("incremental snapshot: reading %s up to key %s", collection, ", ".join(map(str, chunk.scan.maximum)))
        self._chunk = chunk
        self._observers.mark_lsn = chunk.lsn
        self._observers.rebind()
        self._store()
        crash_points.point("postgres.chunk")

    def _emit(self, offset: Mapping[str, Any]) -> list[SourceRecord]:
        """Emits the rows of the chunk that no change has replaced. Everything that its snapshot contains has been emitted."""
        chunk, context = self._chunk, self._context
        self._chunk = None
        self._observers.rebind()
        if chunk is None or chunk.window.is_stale:
            return []
        before = {**offset, **self._observers.offset_extras}
        if chunk.end is not None:
            context.complete_chunk(chunk.end)
        self._rows += chunk.row_count
        if chunk.is_last:
            log.info("incremental snapshot: %s is complete, %d rows", context.current, self._rows)
            self._complete_table("EMPTY" if chunk.scan.maximum is None else "SUCCEEDED")
        else:
            self._notifier.in_progress(context)
        self._store()
        lines = chunk.window.lines()
        # Only the offset of the last row says that the chunk is complete: after a restart, a part of it is read again.
        return self._events.records(chunk.window.rows, lines, before, {**offset, **self._observers.offset_extras})

    def _complete_table(self, status: str) -> None:
        context = self._context
        self._notifier.table_completed(context, self._rows, status)
        signal_id = context.signal_id
        context.complete_table()
        self._rows = 0
        if not context.is_running:
            self._notifier.completed(signal_id)

    def _session(self) -> Connection:
        if self._connection is None or self._connection.is_closed:
            self._connection = self._sessions.open()
        return self._connection

    def _finish(self) -> None:
        """All tables are read."""
        self._observers.stop_recording()
        self._streamed.stop()
        self.close()

    def _drop_chunk(self) -> None:
        self._chunk = None
        self._observers.mark_lsn = NO_MARK

    def close(self) -> None:
        """Closes the connection; the snapshot continues later. May be called twice."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    # --- changes of the current table -----------------------------------------------------------------------------------------

    def observes(self, rows: TableRows) -> bool:
        if self._chunk is None:
            return False
        table = self._chunk.window.rows.table
        return (rows.table.schema, rows.table.name) == (table.schema, table.name)

    def on_change(self, rows: TableRows, message: Insert | Update | Delete) -> None:
        if self._chunk is not None:
            self._chunk.window.on_change(message, rows, keeps_same=self._skips_unchanged)

    def on_truncate(self, rows: TableRows) -> None:
        if self._chunk is not None:
            self._chunk.window.clear()

    def on_disconnect(self) -> None:
        self._drop_chunk()
        self.close()


class _Delay:
    """Waits between two attempts to read a chunk, and warns once if there are many."""

    def __init__(self) -> None:
        self._started: float | None = None
        self._next = 0.0
        self._is_logged = False

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._next

    def start(self, reason: str) -> None:
        now = time.monotonic()
        self._next = now + _RETRY_S
        if self._started is None:
            self._started = now
        elif not self._is_logged and now - self._started > _LOG_DELAY_S:
            self._is_logged = True
            log.warning("%s", reason)

    def reset(self) -> None:
        self._started, self._next, self._is_logged = None, 0.0, False


def _collection(request: SnapshotRequest, table: CapturedTable) -> DataCollection:
    return DataCollection(table.schema, table.name, request.condition(str(table)), request.surrogate_key, request.signal_id)


def _matches_any(patterns: Sequence[str], schema: str, name: str) -> bool:
    return any(matches_collection(pattern, schema, name) for pattern in patterns)
