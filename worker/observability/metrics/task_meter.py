"""Measures what one task does, batch by batch: Apache's task metrics, and histograms."""

from __future__ import annotations

import time
from collections.abc import Callable, Sized

from connect.metrics import Histogram
from worker.model import State
from worker.observability.metrics.task_figures import TaskNumbers, TaskPlugins
from worker.observability.metrics.windows import SampledWindow, WindowSettings

_MS = 1000.0


class RecordCounter:
    """A total, and its recent rate."""

    __slots__ = ("total", "window")

    def __init__(self, settings: WindowSettings) -> None:
        self.total = 0
        self.window = SampledWindow(settings)

    def add(self, count: int, now: float) -> None:
        self.total += count
        self.window.record(count, now)


class DurationMeter:
    """Durations: a histogram of all, and the recent ones."""

    __slots__ = ("histogram", "window")

    def __init__(self, settings: WindowSettings) -> None:
        self.histogram = Histogram()
        self.window = SampledWindow(settings)

    def observe(self, seconds: float, now: float) -> None:
        self.histogram.observe(seconds)
        self.window.record(seconds, now)


class CurrentCount:
    """A number that goes up and down, and its recent values."""

    __slots__ = ("value", "window")

    def __init__(self, settings: WindowSettings) -> None:
        self.value = 0
        self.window = SampledWindow(settings)

    def set(self, value: int, now: float) -> None:
        self.value = value
        self.window.record(value, now)


class CommitMeter:
    """Attempts to store or commit offsets."""

    __slots__ = ("completions", "seq_no", "skips", "successes", "times")

    def __init__(self, settings: WindowSettings) -> None:
        self.seq_no = 0
        self.completions, self.skips = RecordCounter(settings), RecordCounter(settings)
        self.successes = SampledWindow(settings)
        """1 for each recent attempt that succeeded, 0 for others."""
        self.times = DurationMeter(settings)

    def ended(self, seconds: float, now: float, *, successful: bool) -> None:
        self.successes.record(1.0 if successful else 0.0, now)
        if successful:
            self.times.observe(seconds, now)
            self.completions.add(1, now)


class StateClock:
    """How long a task has been in each state, as Apache's ``StateTracker``."""

    __slots__ = ("_durations", "_since", "_state")

    def __init__(self, now: float) -> None:
        self._state = State.UNASSIGNED
        self._since = now
        self._durations: dict[State, float] = {}

    def change(self, state: State, now: float) -> None:
        if state is not self._state:
            self._durations[self._state] = self._durations.get(self._state, 0.0) + now - self._since
            self._state, self._since = state, now

    def ratio(self, state: State, now: float) -> float:
        """Returns the fraction of time in this state since the task was created."""
        durations = dict(self._durations)
        current, since = self._state, self._since
        durations[current] = durations.get(current, 0.0) + max(0.0, now - since)
        total = sum(durations.values())
        return durations.get(state, 0.0) / total if total > 0 else 0.0


class TaskMeter:
    """Written by the task's thread, except :meth:`change_state`; read by any. A call costs a few microseconds, and there is at
    most one of each kind per batch."""

    def __init__(self, settings: WindowSettings | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        settings = settings or WindowSettings()
        self._clock = clock
        self.plugins: TaskPlugins | None = None
        self.batch_times, self.commits = DurationMeter(settings), CommitMeter(settings)
        self._states = StateClock(clock())
        self._incoming, self._outgoing = RecordCounter(settings), RecordCounter(settings)
        self._bytes = 0
        self._partitions: Sized = ()
        self._active = CurrentCount(settings)
        self._batch_sizes, self._transactions = SampledWindow(settings), SampledWindow(settings)

    def change_state(self, state: State) -> None:
        """The task is in this state now."""
        self._states.change(state, self._clock())

    # --- a source's batches

    def polled(self, records: int, seconds: float) -> None:
        """``poll`` returned records."""
        now = self._clock()
        self._incoming.add(records, now)
        self._batch_sizes.record(records, now)
        self.batch_times.observe(seconds, now)

    def sent(self, records: int, size_bytes: int) -> None:
        """Records were passed to the producer."""
        self._bytes += size_bytes
        self._outgoing.add(records, self._clock())

    def transaction_ended(self, records: int) -> None:
        """A transaction with so many records was committed."""
        self._transactions.record(records, self._clock())

    # --- a sink's batches

    def read(self, records: int, size_bytes: int) -> None:
        """Records were taken from Kafka."""
        self._bytes += size_bytes
        self._incoming.add(records, self._clock())

    def put(self, records: int, seconds: float) -> None:
        """``put`` took records."""
        now = self._clock()
        self._outgoing.add(records, now)
        self._batch_sizes.record(records, now)
        self.batch_times.observe(seconds, now)

    def watch_partitions(self, partitions: Sized) -> None:
        """``partitions`` is a live view of the assigned partitions."""
        self._partitions = partitions

    # --- both

    def set_active(self, records: int) -> None:
        """So many records are on their way: unacknowledged ones of a source, uncommitted ones of a sink."""
        self._active.set(records, self._clock())

    def commit_requested(self) -> None:
        """A sink asks Kafka to commit offsets."""
        self.commits.seq_no += 1

    def committed(self, seconds: float, *, successful: bool) -> None:
        """An attempt to store or commit offsets has ended."""
        self.commits.ended(seconds, self._clock(), successful=successful)

    def commit_skipped(self) -> None:
        """The answer to a sink's commit came too late to count."""
        self.commits.skips.add(1, self._clock())

    # --- reading, on any thread

    def numbers(self) -> TaskNumbers:
        """Returns the current numbers."""
        now = self._clock()
        commits, batch_sizes, batch_times = self.commits, self._batch_sizes.summary(now), self.batch_times.window.summary(now)
        commit_times, successes = commits.times.window.summary(now), commits.successes.summary(now)
        active, transactions = self._active.window.summary(now), self._transactions.summary(now)
        return TaskNumbers(
            running_ratio=self._states.ratio(State.RUNNING, now),
            pause_ratio=self._states.ratio(State.PAUSED, now),
            incoming_total=self._incoming.total,
            incoming_rate=self._incoming.window.summary(now).rate,
            outgoing_total=self._outgoing.total,
            outgoing_rate=self._outgoing.window.summary(now).rate,
            bytes_total=self._bytes,
            batch_size_max=batch_sizes.maximum,
            batch_size_avg=batch_sizes.average,
            batch_time_max_ms=batch_times.maximum * _MS,
            batch_time_avg_ms=batch_times.average * _MS,
            active_count=self._active.value,
            active_max=active.maximum,
            active_avg=active.average,
            commit_time_max_ms=commit_times.maximum * _MS,
            commit_time_avg_ms=commit_times.average * _MS,
            commit_success_ratio=successes.average,
            commit_failure_ratio=1.0 - successes.average if successes.values else 0.0,
            commit_seq_no=commits.seq_no,
            completions_total=commits.completions.total,
            completions_rate=commits.completions.window.summary(now).rate,
            skips_total=commits.skips.total,
            skips_rate=commits.skips.window.summary(now).rate,
            transaction_min=transactions.minimum,
            transaction_max=transactions.maximum,
            transaction_avg=transactions.average,
            partitions=len(self._partitions),
        )
