"""What is measured of a task, batch by batch."""

from __future__ import annotations

import pytest

from connect.testing import ManualClock
from worker.model import State
from worker.observability.metrics.task_meter import TaskMeter


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def meter(clock: ManualClock) -> TaskMeter:
    return TaskMeter(clock=clock.monotonic)


def test_time_in_each_state_counts_from_the_creation_of_the_task(meter: TaskMeter, clock: ManualClock) -> None:
    clock.advance(1.0)
    meter.change_state(State.RUNNING)
    clock.advance(2.0)
    meter.change_state(State.PAUSED)
    clock.advance(1.0)
    numbers = meter.numbers()
    assert (numbers.running_ratio, numbers.pause_ratio) == (0.5, 0.25)


def test_batches_of_a_source(meter: TaskMeter, clock: ManualClock) -> None:
    for records, seconds in ((10, 0.2), (30, 0.4)):
        meter.polled(records, seconds)
        meter.sent(records - 1, 100)
        meter.set_active(records)
    numbers = meter.numbers()
    assert (numbers.incoming_total, numbers.outgoing_total, numbers.bytes_total) == (40, 38, 200)
    assert (numbers.batch_size_max, numbers.batch_size_avg) == (30, 20)
    assert numbers.batch_time_max_ms == pytest.approx(400)
    assert numbers.batch_time_avg_ms == pytest.approx(300)
    assert (numbers.active_count, numbers.active_max, numbers.active_avg) == (30, 30, 20)
    figures = meter.batch_times.histogram.figures()
    assert figures.count == 2
    assert figures.total == pytest.approx(0.6)


def test_commits_that_fail_or_come_too_late(meter: TaskMeter) -> None:
    assert meter.numbers().commit_failure_ratio == 0
    for successful in (True, True, True, False):
        meter.commit_requested()
        meter.committed(0.01, successful=successful)
    meter.commit_skipped()
    numbers = meter.numbers()
    assert (numbers.commit_success_ratio, numbers.commit_failure_ratio) == (0.75, 0.25)
    assert (numbers.commit_seq_no, numbers.completions_total, numbers.skips_total) == (4, 3, 1)


def test_transactions_and_partitions(meter: TaskMeter) -> None:
    for records in (5, 1, 9):
        meter.transaction_ended(records)
    assigned: list[int] = []
    meter.watch_partitions(assigned)
    assigned += [1, 2, 3]
    numbers = meter.numbers()
    assert (numbers.transaction_min, numbers.transaction_max, numbers.transaction_avg) == (1, 9, 5)
    assert numbers.partitions == 3
