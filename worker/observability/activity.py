"""What a task is doing, and since when.

The task's thread writes a few attributes per batch; any thread may read them, also while the task's thread hangs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from enum import StrEnum

from connect.pending_work import PendingWork
from worker.model import TaskActivity


class TaskPhase(StrEnum):
    """The phases of a task. Those that call a plugin or a client end soon, unless it hangs."""

    CREATED = "created"
    """Its thread has not begun, or it was created paused."""
    PREPARING = "preparing"
    """Loads plugins, creates Kafka clients, and waits until it may run."""
    STARTING = "starting"
    """In ``start`` of the connector's task."""
    POLLING = "polling"
    """In ``poll``."""
    IDLE = "idle"
    """Waits before the next ``poll``."""
    TRANSFORMING = "transforming"
    """In transformations and converters."""
    SENDING = "sending"
    """Hands records to the producer."""
    FLUSHING = "flushing"
    """Waits for acknowledgments and stores source offsets."""
    CONFIRMING = "confirming"
    """In ``commit`` of a source."""
    WAITING = "waiting"
    """A sink that waits for records."""
    OPENING = "opening"
    """In ``open`` or ``close_partitions`` of a sink, during a rebalance."""
    PUTTING = "putting"
    """In ``put``."""
    PRE_COMMIT = "pre_commit"
    """In ``pre_commit``."""
    COMMITTING = "committing"
    """Waits until consumer offsets are committed."""
    PAUSED = "paused"
    STOPPING = "stopping"
    """Closes what it has opened."""


class ActivityTracker:
    """The activity of one task. Each attribute is replaced as a whole, so that readers need no lock."""

    __slots__ = (
        "_clock", "_committed", "_epoch_ms", "_lag", "_pending", "_polls_return", "_received", "_retry", "_stage", "_uncommitted",
    )  # fmt: skip

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, epoch_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ) -> None:
        self._clock = clock
        self._epoch_ms = epoch_ms
        self._stage: tuple[TaskPhase, float] = (TaskPhase.CREATED, clock())
        self._received: float | None = None
        self._committed: float | None = None
        self._uncommitted: float | None = None
        self._retry: tuple[float, str] | None = None
        self._polls_return = False
        self._pending: PendingWork | None = None
        self._lag = _LagWatch()

    # --- on the task's thread

    def enter(self, phase: TaskPhase) -> None:
        """A phase begins, and the one before ends."""
        self._stage = phase, self._clock()

    def follow(self, pending: PendingWork | None) -> None:
        """The plugin has started; ``pending`` is its work that waits although its methods return."""
        self._pending = pending

    def on_empty_poll(self) -> None:
        """A ``poll`` has returned without records: this source returns while it has none."""
        self._polls_return = True

    def on_records(self) -> None:
        """The task has polled records, or has put some."""
        now = self._clock()
        self._received = now
        if self._uncommitted is None:
            self._uncommitted = now
        self._lag.on_records()

    def on_commit(self, *, is_complete: bool = True) -> None:
        """Offsets were stored or committed; ``is_complete`` says whether these were all."""
        now = self._clock()
        self._committed = now
        self._uncommitted = None if is_complete else now

    def on_nothing_to_commit(self) -> None:
        """All offsets are stored already."""
        self._uncommitted = None

    def on_retry(self, error: str) -> None:
        """A call has failed and will be repeated."""
        self._retry = (self._clock() if self._retry is None else self._retry[0]), error

    def on_success(self) -> None:
        """The repeated call has succeeded."""
        self._retry = None

    def on_lag(self, lag: Mapping[str, int], *, is_paused: bool) -> None:
        """The lag of a sink was looked up. ``is_paused`` says whether the sink itself has paused a partition."""
        self._lag.update(sum(lag.values()), self._clock(), is_paused=is_paused)

    # --- on any thread

    def snapshot(self) -> TaskActivity:
        """Returns the activity now."""
        phase, since = self._stage
        retry, lag = self._retry, self._lag
        pending = None if self._pending is None else self._pending.oldest()
        now, now_ms = self._clock(), self._epoch_ms()

        def at_ms(moment: float | None) -> int | None:
            return None if moment is None else now_ms - round((now - moment) * 1000)

        return TaskActivity(
            phase=phase.value,
            since_ms=at_ms(since) or 0,
            at_ms=now_ms,
            last_record_ms=at_ms(self._received),
            last_commit_ms=at_ms(self._committed),
            uncommitted_since_ms=at_ms(self._uncommitted),
            retrying_since_ms=None if retry is None else at_ms(retry[0]),
            retry_error=None if retry is None else retry[1],
            polls_return=self._polls_return,
            lag_grows_since_ms=at_ms(lag.grows_since),
            is_paused_by_sink=lag.is_paused,
            pending_since_ms=None if pending is None else at_ms(pending.since),
            pending_work=None if pending is None else pending.message,
        )


class _LagWatch:
    """Since when the lag of a sink has been growing without records.

    A lag alone proves nothing: the markers of transactions and compacted records count too, and stay.
    """

    __slots__ = ("_lowest", "grows_since", "is_paused")

    def __init__(self) -> None:
        self._lowest: int | None = None
        self.grows_since: float | None = None
        self.is_paused = False

    def on_records(self) -> None:
        self._lowest = self.grows_since = None

    def update(self, lag: int, now: float, *, is_paused: bool) -> None:
        self.is_paused = is_paused
        if self._lowest is None or lag < self._lowest:
            self._lowest, self.grows_since = lag, None
        elif lag > self._lowest and self.grows_since is None:
            self.grows_since = now
