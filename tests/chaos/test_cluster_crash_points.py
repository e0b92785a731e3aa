"""One of two workers is killed at a crash point; the other takes over without loss, excess duplicates, or incomplete changes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from connect.errors import UnreachableError
from sluice.embedded.broker import EmbeddedBroker
from tests.cluster.cluster import Cluster
from tests.cluster.counting import Counting

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1500)]

FLUSH_S = 0.5
# A busy machine may store offsets this much later than the flush interval.
SLACK_S = 3.0

QUICK = {
    "session.timeout.ms": "1500",
    "heartbeat.interval.ms": "300",
    "consumer.session.timeout.ms": "1500",
    "consumer.heartbeat.interval.ms": "300",
    "scheduled.rebalance.max.delay.ms": "0",
    "offset.flush.interval.ms": str(int(FLUSH_S * 1000)),
    # The crash points are the same with processes; workers start twice as fast without them.
    "task.executors": "0",
}
# With read_uncommitted the sink would also receive aborted records, which need not be repeated.
EXACTLY_ONCE = {"exactly.once.source.support": "enabled", "consumer.isolation.level": "read_committed"}
# Nothing fences a live worker whose session times out: a delay on a busy machine must not end its session.
AT_LEAST_ONCE = {"session.timeout.ms": "8000", "consumer.session.timeout.ms": "8000"}


def create(cluster: Cluster, counting: Counting) -> None:
    counting.configure()


def change_task_count(cluster: Cluster, counting: Counting) -> None:
    """With exactly-once this fences the producers of the previous tasks."""
    counting.create()
    counting.tasks -= 1
    counting.configure()


def add_worker(cluster: Cluster, counting: Counting) -> None:
    counting.create()
    cluster.workers[1].start()


@dataclass(frozen=True, slots=True)
class Crash:
    point: str
    provoke: Callable[[Cluster, Counting], None]
    exactly_once: bool = True
    alone: bool = False
    """Whether the other worker starts only after the crash or during ``provoke``."""


CRASHES = [
    Crash("cluster.tasks_written", create),
    Crash("cluster.tasks_stopped", add_worker, alone=True),
    Crash("cluster.fenced", change_task_count),
    Crash("source.produced:5", create),
    Crash("source.produced:5", create, exactly_once=False),
    Crash("offsets.written:5", create, exactly_once=False),
    Crash("sink.precommitted:3", create, exactly_once=False, alone=True),
]


def crash_id(crash: Crash) -> str:
    return f"{crash.point}{'' if crash.exactly_once else ' at least once'}"


# Without exactly-once, "offsets.written" is the same a moment later.
LONG = {
    "source.produced:5",
    "source.produced:5 at least once",
    "offsets.written:5 at least once",
    "sink.precommitted:3 at least once",
    "cluster.tasks_written",
    "cluster.fenced",
}  # tests/integration/worker/test_process.py has those of one worker


@pytest.mark.parametrize(
    "crash",
    [pytest.param(one, id=crash_id(one), marks=[pytest.mark.long] if crash_id(one) in LONG else []) for one in CRASHES],
)
def test_worker_killed_at_a_crash_point_leaves_no_incomplete_changes(
    tmp_path: Path, broker: EmbeddedBroker, crash: Crash
) -> None:
    with Cluster(broker, tmp_path, 2, {**QUICK, **(EXACTLY_ONCE if crash.exactly_once else AT_LEAST_ONCE)}) as cluster:
        victim, other = cluster.workers
        victim.start(crash_at=crash.point)  # the first member is the leader
        victim.wait_until_up()
        if not crash.alone:
            cluster.start(other)
        counting = Counting(cluster)
        # The crashing worker may be the one that handles the request.
        with contextlib.suppress(UnreachableError, AssertionError):
            crash.provoke(cluster, counting)
        victim.wait_for_crash(crash.point)
        if not other.running:
            cluster.start(other)
        cluster.wait_for_members(1)
        counting.configure()
        counting.wait_until_it_counts()
        cluster.start(victim)
        counting.wait_until_it_counts()
        outcome = counting.finish()
        cluster.stop()
    outcome.assert_nothing_lost()
    outcome.assert_one_run_at_a_time()
    if crash.exactly_once:
        outcome.assert_written_once()
    outcome.assert_duplicates_bounded(1, int(counting.rate * (FLUSH_S + SLACK_S)))
