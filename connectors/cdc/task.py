"""The source task of a connector: what the worker calls, and how failures are retried."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from connect import crash_points
from connect.errors import BadRequestError, ConnectError, UnreachableError
from connect.pending_work import PendingWork
from connect.record import SourceRecord
from connect.source import SourceTask
from connectors.cdc.errors import ConnectionLostError, SourceChangedError, TablesChangedError, WaitInterrupted
from connectors.cdc.interrupt import Interrupt
from connectors.cdc.retries import RetrySchedule
from connectors.cdc.signals.actions import Signal, SourceSignal, find_problem
from connectors.cdc.states import CaptureState
from connectors.cdc.streaming.offset_tracker import OffsetPairs

log = logging.getLogger(__name__)

DATABASE = "database"
"""The pending work of a source that waits for its database."""


class TaskSessions(Protocol):
    """The connections of a task."""

    @property
    def interrupt(self) -> Interrupt:
        """Ends all waits."""


class TaskSignals(Protocol):
    """What a task does with signals."""

    @property
    def own(self) -> SourceSignal | None:
        """A type of signal that the source has besides those of every source."""

    def receive(self, signal: Signal) -> None:
        """Accepts a signal. Callable from any thread."""

    def offsets_stored(self, offsets: OffsetPairs) -> None:
        """Offsets are durable."""


class TaskCapture(Protocol):
    """Captures the changes of a database. Every method that talks to the server may raise ConnectionLostError; then the task
    calls ``disconnect``, and ``read`` again later."""

    state: CaptureState

    @property
    def sessions(self) -> TaskSessions: ...
    @property
    def signals(self) -> TaskSignals: ...
    @property
    def has_more(self) -> bool:
        """Whether the next read returns records without waiting."""

    def check(self) -> None:
        """Connects and checks the server. Raises ConfigError."""

    def read(self) -> Sequence[SourceRecord]:
        """Returns the next records; connects first if necessary, and waits for changes a short time."""

    def take_records(self) -> Sequence[SourceRecord]:
        """Returns the records that were read before an error."""

    def is_loaded(self) -> bool:
        """Whether the snapshot is complete, or none is required."""

    def update_offsets(self, offsets: OffsetPairs) -> OffsetPairs: ...
    def offsets_stored(self, offsets: OffsetPairs) -> bool:
        """Offsets are durable. Returns whether the server was told that it may discard more of its log."""

    def progress(self) -> Mapping[str, Any]: ...
    def disconnect(self) -> None:
        """Closes all connections. The position remains."""


class CaptureTask(SourceTask):
    """The only task of a connector, because a log has one reader. A subclass opens the capture in ``start``."""

    retried: ClassVar[tuple[type[ConnectError], ...]] = (
        ConnectionLostError,
        SourceChangedError,
        TablesChangedError,
        UnreachableError,
    )
    """Errors after which the task connects again."""
    confirmed_point: ClassVar[str] = ""
    """The crash point after the server was told what it may discard; empty if it is not told."""

    def __init__(self) -> None:
        self.pending_work: PendingWork = PendingWork()
        self._capture: TaskCapture | None = None
        self._retries: RetrySchedule
        self._streaming_delay_s = 0.0
        self._stopped = False
        self._failure: ConnectError | None = None

    def _begin(self, capture: TaskCapture, retries: RetrySchedule, delay_s: float, streaming_delay_s: float) -> None:
        """Starts with a capture, after ``snapshot.delay.ms``. Raises ConfigError if the server cannot be used."""
        self._capture, self._retries, self._streaming_delay_s = capture, retries, streaming_delay_s
        if delay_s:
            retries.wait(delay_s)
        if self._stopped:
            capture.sessions.interrupt.set()
        try:
            capture.check()
        except WaitInterrupted:
            return
        except (ConnectionLostError, UnreachableError) as e:
            self._reconnect_later(capture, e)

    def poll(self) -> Sequence[SourceRecord] | None:
        capture = self._capture
        if self._stopped or capture is None:
            return None
        if self._failure is not None:
            raise self._failure
        before = capture.state
        try:
            if (remaining_s := self._retries.remaining_s()) > 0:
                capture.sessions.interrupt.wait(min(remaining_s, 1.0))
                return None
            records = capture.read()
        except WaitInterrupted:
            return None
        except self.retried as e:
            # Before the connection is closed: the position behind them remains.
            records = capture.take_records()
            self._reconnect_later(capture, e)
            return records or None
        except ConnectError as e:
            if not (records := capture.take_records()):
                raise
            self._failure = e  # after the records that were read before it
            return records
        self.pending_work.end(DATABASE)
        self._on_transition(before, capture.state)
        return records or None

    def _on_transition(self, before: CaptureState, now: CaptureState) -> None:
        if now is before:
            return
        if now in (CaptureState.STREAMING, CaptureState.CATCHING_UP):
            self._retries.connected()
        elif now is CaptureState.SNAPSHOT_COMPLETED:
            self._retries.wait(self._streaming_delay_s)

    def has_more(self) -> bool:
        return self._capture is not None and self._capture.has_more

    def is_loaded(self) -> bool:
        return self._capture is not None and self._capture.is_loaded()

    def update_offsets(self, offsets: OffsetPairs) -> OffsetPairs:
        return () if self._capture is None else self._capture.update_offsets(offsets)

    def commit(self, offsets: OffsetPairs) -> None:
        if self._capture is None:
            return
        if self._capture.offsets_stored(offsets) and self.confirmed_point:
            crash_points.point(self.confirmed_point)
        self._capture.signals.offsets_stored(offsets)

    def progress(self) -> Mapping[str, Any]:
        return {"phase": CaptureState.STARTING.value} if self._capture is None else self._capture.progress()

    def signal(self, signal_id: str, type: str, data: str | None) -> None:
        signal = Signal(signal_id, type, data)
        if (problem := find_problem(signal, None if self._capture is None else self._capture.signals.own)) is not None:
            raise BadRequestError(problem)
        if self._capture is not None:
            self._capture.signals.receive(signal)

    def stop(self) -> None:
        self._stopped = True
        if self._capture is not None:
            self._capture.sessions.interrupt.set()

    def _reconnect_later(self, capture: TaskCapture, error: ConnectError) -> None:
        capture.disconnect()
        wait_s = self._retries.connection_lost(error)
        capture.state = CaptureState.RECONNECTING
        self.pending_work.begin(DATABASE, f"the source has no connection to the database and tries again: {error.message}")
        log.warning("%s; retrying in %.1f s", error.message, wait_s)
