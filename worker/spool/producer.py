"""Collects the records of one task and writes them to the spool in segments, on a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from confluent_kafka import KafkaError, Message

from connect.errors import ConnectError
from connect.spool.index import Offsets
from worker.kafka.record_producer import DeliveryCallback, ProduceCancelled, ProducerRun
from worker.spool.output import SpoolOutput

log = logging.getLogger(__name__)


class _SentRecord(NamedTuple):
    """A record whose task wants to know where it was written, and its row in the segment."""

    row: int
    run: ProducerRun
    on_delivery: DeliveryCallback


@dataclass(slots=True)
class _SegmentBuffer:
    """The records and offsets of the next segment."""

    runs: list[tuple[ProducerRun, int]] = field(default_factory=list)
    callbacks: list[_SentRecord] = field(default_factory=list)
    offsets: dict[str, str | None] = field(default_factory=dict)
    rows: int = 0
    size_bytes: int = 0
    loaded: bool = False
    """Whether the segment ends a load."""
    since: float | None = None
    """``time.monotonic()`` when the first batch was complete; None if there is nothing to write."""
    hurried: bool = False

    def discard_after(self, runs: int, callbacks: int, rows: int, size_bytes: int) -> None:
        """Discards the last batch."""
        del self.runs[runs:], self.callbacks[callbacks:]
        self.rows, self.size_bytes = rows, size_bytes


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """Where a record is, with the methods of a client's message that a task's confirmation reads."""

    run: ProducerRun
    number: int
    time_ms: int

    def topic(self) -> str:
        return self.run.topic

    def partition(self) -> int:
        return self.run.partitions[0] if self.run.partitions and self.run.partitions[0] >= 0 else 0

    def offset(self) -> int:
        return self.number

    def timestamp(self) -> tuple[int, int]:
        return 1, self.time_ms


class SpoolProducer:
    """Implements :class:`worker.source.producer.SourceProducer`. Between :meth:`begin_batch` and :meth:`end_batch`, nothing is
    written: a segment has whole batches only, so that no record is there without its source offset (promise 5)."""

    unavailable_at = 0.0

    def __init__(self, name: str, task: int, start_id: int, output: SpoolOutput) -> None:
        self.sent = 0
        self._task, self._start_id = task, start_id
        self._output = output
        self._changed = threading.Condition(threading.RLock())
        self._buffer = _SegmentBuffer()
        self._mark = (0, 0, 0, 0)
        self._writing: _SegmentBuffer | None = None
        self._delivered: list[tuple[DeliveryCallback, StoredRecord]] = []
        self._error: ConnectError | None = None
        self._closing = self._cancelled = False
        self._thread = threading.Thread(target=self._write_segments, name=f"spool-{name}", daemon=True)

    def start(self) -> None:
        """Starts the thread, which :meth:`close` ends."""
        self._thread.start()

    def __len__(self) -> int:
        """The number of records that are not in the spool yet."""
        return self._buffer.rows + (0 if self._writing is None else self._writing.rows)

    # --- records, on the task's thread

    def begin_batch(self) -> None:
        """Holds back segments until the batch is complete."""
        self._changed.acquire()
        buffer = self._buffer
        self._mark = len(buffer.runs), len(buffer.callbacks), buffer.rows, buffer.size_bytes

    def end_batch(self, offsets: Offsets | None) -> None:
        """The batch is complete up to these source offsets; None discards it."""
        try:
            buffer = self._buffer
            if offsets is None:
                buffer.discard_after(*self._mark)
            else:
                buffer.offsets.update(offsets)
                if buffer.since is None and (buffer.rows or buffer.offsets):
                    buffer.since = time.monotonic()
            self._changed.notify_all()
        finally:
            self._changed.release()

    def send_run(self, run: ProducerRun, on_delivery: DeliveryCallback | None = None) -> None:
        if self._cancelled:
            raise ProduceCancelled
        if run.columns is not None:
            size_bytes = run.columns.nbytes
        else:
            size_bytes = sum(map(len, filter(None, run.values))) + sum(map(len, filter(None, run.keys)))
        with self._changed:
            buffer = self._buffer
            buffer.runs.append((run, time.time_ns() // 1_000_000))
            if on_delivery is not None:
                buffer.callbacks.append(_SentRecord(buffer.rows, run, on_delivery))
            buffer.rows += len(run.values)
            buffer.size_bytes += size_bytes
        self.sent = len(run.values)

    def send_one(self, run: ProducerRun, on_delivery: DeliveryCallback) -> None:
        self.send_run(run, on_delivery)

    def wait_for_space(self, timeout_s: float) -> bool:
        """Waits while two segments are not written yet. Returns whether there is space."""
        limit = 2 * self._output.settings.segment_max_bytes
        with self._changed:
            return self._changed.wait_for(lambda: self._buffer.size_bytes < limit or self._error is not None, timeout_s)

    def finish_load(self) -> None:
        """Marks that all complete batches so far are all that existed. The mark is in the spool after :meth:`drain`."""
        with self._changed:
            self._buffer.loaded = self._buffer.hurried = True
            self._buffer.since = self._buffer.since or time.monotonic()
            self._changed.notify_all()

    def send_now(self) -> None:
        with self._changed:
            self._buffer.hurried = True
            self._changed.notify_all()

    def serve(self) -> None:
        """Calls back for records that are in the spool. Raises the error of a segment that could not be written."""
        with self._changed:
            delivered, self._delivered = self._delivered, []
        for on_delivery, record in delivered:
            on_delivery(None, cast(Message, record))
        if self._error is not None and not self._cancelled:
            raise self._error.with_traceback(None)

    def drain(self, timeout_s: float) -> bool:
        self.send_now()
        with self._changed:
            done = self._changed.wait_for(lambda: self._is_idle() or self._error is not None, timeout_s)
        self.serve()
        return done

    def _is_idle(self) -> bool:
        return self._buffer.since is None and self._writing is None

    def record_error(self, error: KafkaError, message: Message) -> None:
        self._error = self._error or ConnectError(f"a record for topic {message.topic()} was not written: {error.str()}")

    def cancel(self) -> None:
        """Writes nothing more. Called from another thread; does not wait."""
        self._cancelled = self._closing = True

    def close(self) -> None:
        """Ends the thread. What it has not written is discarded: :meth:`drain` comes first."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()

    # --- segments, on the producer's thread

    def _write_segments(self) -> None:
        while self._wait_until_due():
            with self._changed:
                buffer, self._buffer = self._buffer, _SegmentBuffer()
                self._writing = buffer
                self._changed.notify_all()
            error = self._write(buffer)
            with self._changed:
                self._writing = None
                self._error = self._error or error
                self._changed.notify_all()
            if error is not None:
                return

    def _wait_until_due(self) -> bool:
        settings = self._output.settings
        with self._changed:
            while not self._closing:
                buffer = self._buffer
                if buffer.since is None:
                    self._changed.wait()
                    continue
                left_s = buffer.since + settings.linger_s - time.monotonic()
                if buffer.hurried or left_s <= 0 or buffer.size_bytes >= settings.segment_max_bytes:
                    return True
                self._changed.wait(left_s)
        return False

    def _write(self, buffer: _SegmentBuffer) -> ConnectError | None:
        try:
            entry = self._output.add(self._task, self._start_id, buffer.runs, buffer.offsets, loaded=buffer.loaded)
        except ConnectError as e:
            return e
        except Exception as e:
            log.exception("A segment of the spool cannot be written")
            return ConnectError(f"a segment of the spool cannot be written: {type(e).__name__}: {e}")
        now = time.time_ns() // 1_000_000
        done = [(c.on_delivery, StoredRecord(c.run, entry.first_row + c.row, now)) for c in buffer.callbacks]
        with self._changed:
            self._delivered += done
        return None
