"""A worker of two is killed at a chosen instant; the other one goes on, and nothing is lost, doubled or left half done."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from connect.errors import UnreachableError
from sluice.embedded.broker import EmbeddedBroker
from tests.cluster.cluster import Cluster
from tests.cluster.counting import RECOVERY_S, Counting

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1500)]

FLUSH_S = 0.5
# What a busy machine adds to a flush interval before offsets are stored.
SLACK_S = 3.0

QUICK = {
    "session.timeout.ms": "1500",
    "heartbeat.interval.ms": "300",
    "consumer.session.timeout.ms": "1500",
    "consumer.heartbeat.interval.ms": "300",
    "scheduled.rebalance.max.delay.ms": "0",
    "offset.flush.interval.ms": str(int(FLUSH_S * 1000)),
    # The points are the same in processes, and a worker starts in half the time without.
    "task.executors": "0",
}
# A reader of everything gets records of transactions that were aborted, too, of which nothing need come again.
EXACTLY_ONCE = {"exactly.once.source.support": "enabled", "consumer.isolation.level": "read_committed"}
# Without it nothing fences a worker that is taken for dead and is not: one that a busy machine holds up must not be.
AT_LEAST_ONCE = {"session.timeout.ms": "8000", "consumer.session.timeout.ms": "8000"}


def create(cluster: Cluster, counting: Counting) -> None:
    counting.configure()


def change_the_number_of_tasks(cluster: Cluster, counting: Counting) -> None:
    """With exactly-once, the producers of the tasks before are fenced for it."""
    counting.create()
    counting.tasks -= 1
    counting.configure()


def add_a_worker(cluster: Cluster, counting: Counting) -> None:
    counting.create()
    cluster.workers[1].start()


@dataclass(frozen=True, slots=True)
class Crash:
    point: str
    lead_to: Callable[[Cluster, Counting], None]
    exactly_once: bool = True
    alone: bool = False
    """Whether the other worker comes later."""


CRASHES = [
    Crash("cluster.tasks_written", create),
    Crash("cluster.tasks_stopped", add_a_worker, alone=True),
    Crash("cluster.fenced", change_the_number_of_tasks),
    Crash("source.produced:5", create),
    Crash("source.produced:5", create, exactly_once=False),
    Crash("offsets.written:5", create, exactly_once=False),
    Crash("sink.precommitted:3", create, exactly_once=False, alone=True),
]


def name_of(crash: Crash) -> str:
    return f"{crash.point}{'' if crash.exactly_once else ' at least once'}"


@pytest.mark.parametrize("crash", CRASHES, ids=name_of)
def test_worker_killed_at_a_crash_point_leaves_nothing_half_done(tmp_path: Path, broker: EmbeddedBroker, crash: Crash) -> None:
    with Cluster(broker, tmp_path, 2, {**QUICK, **(EXACTLY_ONCE if crash.exactly_once else AT_LEAST_ONCE)}) as cluster:
        victim, other = cluster.workers
        victim.start(crash_at=crash.point)  # comes first, and leads
        victim.wait_until_up()
        if not crash.alone:
            cluster.start(other)
        counting = Counting(cluster)
        # The worker that answers may be the one that goes.
        with contextlib.suppress(UnreachableError, AssertionError):
            crash.lead_to(cluster, counting)
        assert victim.wait_for_crash(RECOVERY_S), f"{crash.point} was not reached\n{victim.log_tail()}"
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
