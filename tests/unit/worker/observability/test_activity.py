"""What a task is doing, and the stalls that follow from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connect.pending_work import PendingWork
from worker.model import Stall, TaskActivity
from worker.observability.activity import ActivityTracker, TaskPhase
from worker.observability.stalls import StallSettings, find_connector_stall, find_stall, instant

_SETTINGS = StallSettings(timeout_ms=45_000, quiet_timeout_ms=300_000, offsets_interval_ms=60_000)


class Clock:
    """A clock that tests move, in seconds; the epoch begins at 1000 s."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def epoch_ms(self) -> int:
        return 1_000_000 + round(self.now * 1000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tracker(clock: Clock) -> ActivityTracker:
    return ActivityTracker(clock, clock.epoch_ms)


def _kind(tracker: ActivityTracker, *, is_sink: bool = False) -> str | None:
    stall = find_stall(tracker.snapshot(), _SETTINGS, is_sink=is_sink)
    return None if stall is None else stall.kind


def test_snapshot_has_times_since_the_epoch(tracker: ActivityTracker, clock: Clock) -> None:
    clock.now = 2
    tracker.enter(TaskPhase.PUTTING)
    tracker.on_records()
    clock.now = 5
    tracker.on_retry("no")
    clock.now = 9
    assert tracker.snapshot() == TaskActivity(
        phase="putting", since_ms=1_002_000, at_ms=1_009_000, last_record_ms=1_002_000, uncommitted_since_ms=1_002_000,
        retrying_since_ms=1_005_000, retry_error="no",
    )  # fmt: skip


@pytest.mark.parametrize("phase", [p for p in TaskPhase if p not in ("created", "idle", "waiting", "paused", "polling")])
def test_each_call_that_does_not_return_is_a_stall(tracker: ActivityTracker, clock: Clock, phase: TaskPhase) -> None:
    tracker.enter(phase)
    clock.now = 45
    assert _kind(tracker) is None
    clock.now = 46
    stall = find_stall(tracker.snapshot(), _SETTINGS, is_sink=True)
    assert stall is not None
    assert (stall.kind, stall.phase, stall.since_ms) == ("call", phase.value, 1_000_000)


@pytest.mark.parametrize("phase", [TaskPhase.CREATED, TaskPhase.IDLE, TaskPhase.WAITING, TaskPhase.PAUSED])
def test_a_task_that_waits_has_not_stalled(tracker: ActivityTracker, clock: Clock, phase: TaskPhase) -> None:
    tracker.enter(phase)
    clock.now = 1e6
    assert _kind(tracker) is None


def test_poll_may_be_quiet_longer_until_it_has_returned_without_records_once(tracker: ActivityTracker, clock: Clock) -> None:
    tracker.enter(TaskPhase.POLLING)
    clock.now = 290
    assert _kind(tracker) is None
    clock.now = 301
    assert _kind(tracker) == "call"
    tracker.on_empty_poll()
    tracker.enter(TaskPhase.POLLING)
    clock.now += 46
    assert _kind(tracker) == "call"


def test_calls_that_keep_failing_are_a_stall_that_names_the_error(tracker: ActivityTracker, clock: Clock) -> None:
    tracker.enter(TaskPhase.WAITING)
    tracker.on_retry("first")
    clock.now = 46
    tracker.on_retry("the database does not respond")
    stall = find_stall(tracker.snapshot(), _SETTINGS, is_sink=True)
    assert stall is not None
    assert stall.message == "put() keeps failing and is repeated: the database does not respond"
    tracker.on_success()
    assert _kind(tracker) is None


def test_source_offsets_that_are_not_stored_are_a_stall_after_a_flush_interval(tracker: ActivityTracker, clock: Clock) -> None:
    tracker.enter(TaskPhase.IDLE)
    tracker.on_records()
    clock.now = 100
    tracker.on_records()
    assert _kind(tracker) is None
    clock.now = 106
    assert _kind(tracker) == "offsets"
    tracker.on_commit()
    assert _kind(tracker) is None
    clock.now = 1000
    assert _kind(tracker) is None  # no record since


def test_sink_may_hold_offsets_back_for_longer(tracker: ActivityTracker, clock: Clock) -> None:
    tracker.enter(TaskPhase.WAITING)
    tracker.on_records()
    clock.now = 350
    assert _kind(tracker, is_sink=True) is None
    clock.now = 361
    assert _kind(tracker, is_sink=True) == "offsets"
    tracker.on_commit(is_complete=False)
    assert _kind(tracker, is_sink=True) is None


def test_lag_that_stays_is_no_stall_and_lag_that_grows_without_records_is(tracker: ActivityTracker, clock: Clock) -> None:
    tracker.enter(TaskPhase.WAITING)
    tracker.on_lag({"t-0": 1}, is_paused=False)  # the marker of a transaction
    clock.now = 1000
    tracker.on_lag({"t-0": 1}, is_paused=False)
    assert _kind(tracker, is_sink=True) is None
    tracker.on_lag({"t-0": 3}, is_paused=False)
    clock.now = 1046
    tracker.on_lag({"t-0": 3}, is_paused=False)
    assert _kind(tracker, is_sink=True) == "lag"
    tracker.on_lag({"t-0": 3}, is_paused=True)
    assert _kind(tracker, is_sink=True) is None
    tracker.on_lag({"t-0": 3}, is_paused=False)
    tracker.on_records()
    tracker.on_lag({"t-0": 0}, is_paused=False)
    assert _kind(tracker, is_sink=True) is None


def test_timeout_of_zero_reports_nothing(tracker: ActivityTracker, clock: Clock) -> None:
    tracker.enter(TaskPhase.PUTTING)
    clock.now = 1e6
    assert find_stall(tracker.snapshot(), replace(_SETTINGS, timeout_ms=0), is_sink=True) is None
    assert find_connector_stall("start", 0, 10**9, replace(_SETTINGS, timeout_ms=0)) is None


def test_settings_come_from_the_connector_then_the_worker_and_invalid_ones_are_ignored() -> None:
    config = {"task.stall.timeout.ms": "7", "transaction.boundary.interval.ms": "90000"}
    worker = {"task.stall.timeout.ms": "8", "task.stall.quiet.timeout.ms": "9"}
    assert StallSettings.of(config, worker, 60_000) == StallSettings(7, 9, 90_000)
    assert StallSettings.of({"task.stall.timeout.ms": "soon"}, {}, 60_000) == StallSettings()
    assert StallSettings.of({"commit.interval.ms": "600000"}, {}, 60_000).offsets_interval_ms == 600_000


def test_connector_stall_names_the_method() -> None:
    assert find_connector_stall("start", 0, 45_000, _SETTINGS) is None
    stall = find_connector_stall("start", 0, 45_001, _SETTINGS)
    assert stall is not None
    assert stall.message == "start() of the connector has not returned"


def test_instants_are_for_people() -> None:
    assert instant(1_795_680_000_999) == "2026-11-26T08:00:00Z"


def test_work_that_waits_inside_a_task_is_a_stall_although_its_calls_return(tracker: ActivityTracker, clock: Clock) -> None:
    pending = PendingWork(clock)
    tracker.follow(pending)
    tracker.enter(TaskPhase.WAITING)
    pending.begin("orders", "records for table orders wait")
    clock.now = 100
    pending.begin("orders", "records for table orders still wait")
    pending.begin("items", "records for table items wait")
    clock.now = 360
    assert _kind(tracker, is_sink=True) is None
    clock.now = 361
    stall = find_stall(tracker.snapshot(), _SETTINGS, is_sink=True)
    assert stall == Stall("pending", "waiting", 1_000_000, "records for table orders still wait")
    assert _kind(tracker) == "pending"
    tracker.enter(TaskPhase.PAUSED)
    assert _kind(tracker, is_sink=True) is None
    tracker.enter(TaskPhase.WAITING)
    pending.end("orders")
    pending.end("orders")
    assert tracker.snapshot().pending_since_ms == 1_100_000
    pending.end("items")
    assert tracker.snapshot().pending_work is None
    pending.begin("prices", "records for table prices wait", since=500)
    assert tracker.snapshot().pending_work is None
    clock.now = 500
    assert tracker.snapshot().pending_since_ms == 1_500_000
