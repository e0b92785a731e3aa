"""Incremental snapshots: reads tables in chunks while their changes are streamed.

A chunk is read as of one point in time. Changes that are streamed until everything that its snapshot contains is emitted replace
its rows; then the rest is emitted as 'r' events. So an event never precedes one that it is older than. As in DBLog and Debezium,
but the window closes at a position of the stream, and a chunk is read again if the stream was ahead of its snapshot.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic

from connect import crash_points
from connect.backoff import Backoff
from connect.record import SourceRecord
from connectors.cdc.incremental.chunks import Chunk, ChunkDelayed, ChunkSource, TableSkipped, WindowT
from connectors.cdc.incremental.context import DataCollection, IncrementalContext
from connectors.cdc.incremental.notifications import Notifier
from connectors.cdc.incremental.requests import SnapshotRequest, dump_requests, matches_collection, parse_requests
from connectors.cdc.incremental.watermarks import Watermarks
from connectors.cdc.streaming.observers import ChangeObservers, MarkT

log = logging.getLogger(__name__)

_REQUESTS = "incremental_snapshot_requests"
"""Our own key in offsets: signals whose tables are not known yet."""
_BACKFILL = "backfill"
"""Takes the place of a signal's ID."""
_FIRST_RETRY_S, _MAX_RETRY_S = 0.05, 1.0
_LOG_DELAY_S = 10.0


class IncrementalSnapshot(Generic[WindowT, MarkT]):
    """Runs incremental snapshots, one table after another (a RowObserver and a SnapshotControl)."""

    def __init__(
        self,
        source: ChunkSource[WindowT, MarkT],
        observers: ChangeObservers[Any, Any, Any, MarkT],
        watermarks: Watermarks,
        notifier: Notifier,
        *,
        skips_unchanged: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``skips_unchanged``: updates that change no captured column are not emitted. ``clock`` returns seconds."""
        self._source = source
        self._observers = observers
        self._watermarks = watermarks
        self._notifier = notifier
        self._skips_unchanged = skips_unchanged
        self._context = IncrementalContext(source.java_keys)
        self._requests: list[SnapshotRequest] = []
        self._chunk: Chunk[WindowT, MarkT] | None = None
        self._delay = _Delay(clock)
        self._rows = 0
        self._has_started = False
        observers.add(self)
        observers.on_mark = self._emit

    def load(self, offset: Mapping[str, Any]) -> None:
        """Continues the snapshot of a stored offset."""
        self._context = IncrementalContext(self._source.java_keys, offset)
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
            self._delay.reset()
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
            if self._has_started:
                self._has_started = False
                self._source.finish()
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
        tables = self._source.find_tables()
        collections: list[DataCollection] = []
        for pattern in request.collections:
            found = [table for table in tables if matches_collection(pattern, *table)]
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
        self._has_started = True
        with self._watermarks.window(collection):
            chunk = self._source.read(collection, self._context.scan)
        if chunk.scan != self._context.scan:
            self._context.start_scan(chunk.scan)
            if chunk.scan.end is None and chunk.scan.maximum is not None:
                log.info("incremental snapshot: reading %s up to key %s", collection, ", ".join(map(str, chunk.scan.maximum)))
        self._chunk = chunk
        self._observers.mark = chunk.mark
        self._observers.rebind()
        self._store()
        crash_points.point(self._source.crash_point)

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
        # Only the offset of the last row says that the chunk is complete: after a restart, a part of it is read again.
        return self._source.records(chunk.window, before, {**offset, **self._observers.offset_extras})

    def _complete_table(self, status: str) -> None:
        context = self._context
        self._notifier.table_completed(context, self._rows, status)
        signal_id = context.signal_id
        context.complete_table()
        self._delay.reset()
        self._rows = 0
        if not context.is_running:
            self._notifier.completed(signal_id)

    def _drop_chunk(self) -> None:
        self._chunk = None
        self._observers.clear_mark()

    def close(self) -> None:
        """Closes connections; the snapshot continues later. May be called twice."""
        self._source.close()

    # --- changes of the current table -----------------------------------------------------------------------------------------

    def observes(self, rows: Any) -> bool:
        return self._chunk is not None and self._chunk.window.is_of(rows)

    def on_change(self, rows: Any, message: Any) -> None:
        if self._chunk is not None:
            self._chunk.window.on_change(message, rows, keeps_same=self._skips_unchanged)

    def on_truncate(self, rows: Any) -> None:
        if self._chunk is not None:
            self._chunk.window.clear()

    def on_disconnect(self) -> None:
        self._drop_chunk()
        self.close()


class _Delay:
    """Waits between two attempts to read a chunk, and warns once if there are many."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._backoff = Backoff(_FIRST_RETRY_S, _MAX_RETRY_S)
        self._started: float | None = None
        self._next = 0.0
        self._is_logged = False

    @property
    def is_over(self) -> bool:
        return self._clock() >= self._next

    def start(self, reason: str) -> None:
        now = self._clock()
        self._next = now + self._backoff.next_delay_s()
        if self._started is None:
            self._started = now
        elif not self._is_logged and now - self._started > _LOG_DELAY_S:
            self._is_logged = True
            log.warning("%s", reason)

    def reset(self) -> None:
        self._backoff.reset()
        self._started, self._next, self._is_logged = None, 0.0, False


def _collection(request: SnapshotRequest, table: tuple[str, str]) -> DataCollection:
    return DataCollection(*table, request.condition(".".join(table)), request.surrogate_key, request.signal_id)


def _matches_any(patterns: Sequence[str], schema: str, name: str) -> bool:
    return any(matches_collection(pattern, schema, name) for pattern in patterns)
