"""Workers of a cluster shut down or are killed, and restart, while a source and a sink run. Promises 1 to 5."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.embedded.broker import EmbeddedBroker
from tests.cluster.cluster import Cluster
from tests.cluster.counting import Counting
from tests.cluster.worker_process import WorkerProcess
from tests.support import randomness

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3000)]

ROUNDS = randomness.size("SLUICE_ROUNDS", 1)
KILLS = randomness.size("SLUICE_KILLS", 2)
STEPS = randomness.size("SLUICE_STEPS", 3)
WORKERS = randomness.size("SLUICE_WORKERS", 2)
FLUSH_S = 0.5
# A busy machine may store offsets this much later than the flush interval.
SLACK_S = 3.0

QUICK = {
    "session.timeout.ms": "1500",
    "heartbeat.interval.ms": "300",
    "consumer.session.timeout.ms": "1500",
    "consumer.heartbeat.interval.ms": "300",
    "scheduled.rebalance.max.delay.ms": "1500",
    "offset.flush.interval.ms": str(int(FLUSH_S * 1000)),
}
# With read_uncommitted the sink would also receive aborted records, which need not be repeated.
EXACTLY_ONCE = {"exactly.once.source.support": "enabled", "consumer.isolation.level": "read_committed"}
# Nothing fences a live worker whose session times out: a delay on a busy machine must not end its session.
AT_LEAST_ONCE = {"session.timeout.ms": "8000", "consumer.session.timeout.ms": "8000"}
# Some tests use threads, one a process; workers start twice as fast without processes.
THREADS = {"task.executors": "0"}
ONE_PROCESS = {"task.executors": "1"}


@pytest.mark.long
def test_rolling_restart_neither_loses_nor_repeats_records(tmp_path: Path, broker: EmbeddedBroker) -> None:
    with Cluster(broker, tmp_path, WORKERS, {**QUICK, **AT_LEAST_ONCE, **THREADS}) as cluster:
        cluster.start()
        counting = Counting(cluster)
        counting.create()
        for _ in range(ROUNDS):
            for worker in cluster.workers:
                cluster.stop(worker)
                cluster.start(worker)
                counting.wait_until_it_counts()
        outcome = counting.finish()
        cluster.stop()
    outcome.assert_nothing_lost()
    outcome.assert_one_run_at_a_time()
    outcome.assert_written_once()
    outcome.assert_received_once()


@pytest.mark.parametrize(
    "exactly_once", [pytest.param(False, id="at_least_once", marks=pytest.mark.long), pytest.param(True, id="exactly_once")]
)
@pytest.mark.long
def test_workers_killed_one_after_the_other_lose_no_records(tmp_path: Path, broker: EmbeddedBroker, exactly_once: bool) -> None:
    settings = {**QUICK, **({**EXACTLY_ONCE, **ONE_PROCESS} if exactly_once else {**AT_LEAST_ONCE, **THREADS})}
    with Cluster(broker, tmp_path, WORKERS, settings) as cluster:
        cluster.start()
        counting = Counting(cluster)
        counting.create()
        for number in range(KILLS):
            worker = cluster.workers[number % WORKERS]
            worker.kill()
            cluster.start(worker)
            counting.wait_until_it_counts()
        outcome = counting.finish()
        cluster.stop()
    outcome.assert_nothing_lost()
    outcome.assert_one_run_at_a_time()
    if exactly_once:
        outcome.assert_written_once()
    outcome.assert_duplicates_bounded(KILLS, int(counting.rate * (FLUSH_S + SLACK_S)))


class Disturber:
    """Disturbs a cluster with random actions and waits only sometimes for its recovery."""

    def __init__(self, cluster: Cluster, counting: Counting, *, freezes: bool) -> None:
        self._cluster = cluster
        self._counting = counting
        self._random = randomness.chance("disturbances")
        self._actions: list[Callable[[], None]] = [
            self.stop_and_start, self.kill_and_start, self.change_tasks, self.restart_connector, self.restart_task, self.pause,
        ]  # fmt: skip
        if freezes:
            self._actions.append(self.freeze_and_thaw)
        self.done: list[str] = []

    def disturb(self) -> None:
        action = self._random.choice(self._actions)
        self.done.append(action.__name__)
        action()
        if self._random.random() < 0.5:
            self._counting.wait_until_it_counts()

    def _any_worker(self) -> WorkerProcess:
        return self._random.choice(self._cluster.live)

    def stop_and_start(self) -> None:
        worker = self._any_worker()
        self._cluster.stop(worker)
        worker.start()
        worker.wait_until_up()

    def kill_and_start(self) -> None:
        worker = self._any_worker()
        worker.kill()
        worker.start()
        worker.wait_until_up()

    def freeze_and_thaw(self) -> None:
        worker = self._any_worker()
        worker.freeze()
        self._counting.wait_until_running_on(*self._cluster.live)
        worker.thaw()

    def change_tasks(self) -> None:
        self._counting.tasks = 5 - self._counting.tasks  # 2 or 3
        self._counting.configure()

    def restart_connector(self) -> None:
        self._cluster.exchange("POST", f"/connectors/{self._counting.source}/restart?includeTasks=true")

    def restart_task(self) -> None:
        self._cluster.exchange("POST", f"/connectors/{self._counting.source}/tasks/0/restart")

    def pause(self) -> None:
        for call in ("pause", "resume"):
            self._cluster.exchange("PUT", f"/connectors/{self._counting.source}/{call}")


@pytest.mark.parametrize(
    "exactly_once", [pytest.param(False, id="at_least_once"), pytest.param(True, id="exactly_once", marks=pytest.mark.long)]
)
@pytest.mark.long
def test_task_runs_on_at_most_one_worker(tmp_path: Path, broker: EmbeddedBroker, exactly_once: bool) -> None:
    delivery = EXACTLY_ONCE if exactly_once else {**AT_LEAST_ONCE, **THREADS}
    settings = {**QUICK, "scheduled.rebalance.max.delay.ms": "0", **delivery}
    with Cluster(broker, tmp_path, WORKERS, settings) as cluster:
        cluster.start()
        counting = Counting(cluster)
        counting.create()
        # Without exactly-once, late writes of a frozen worker are not fenced.
        disturber = Disturber(cluster, counting, freezes=exactly_once)
        for _ in range(STEPS):
            disturber.disturb()
        counting.wait_until_it_counts()
        outcome = counting.finish()
        cluster.stop()
    outcome.assert_nothing_lost()
    outcome.assert_one_run_at_a_time()
    if exactly_once:
        outcome.assert_written_once()
    outcome.assert_duplicates_bounded(STEPS, int(counting.rate * (FLUSH_S + SLACK_S)))
