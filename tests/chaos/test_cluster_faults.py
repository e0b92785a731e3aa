"""Workers that hang or lose their network, and unavailable brokers, while a source and a sink run. Promises 1 to 5."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from rest.client import ConnectClient
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.ports import free_ports
from tests.cluster.cluster import Cluster
from tests.cluster.counting import Counting
from tests.cluster.namespace import namespace
from tests.cluster.proxy import broker_with_second_listener, proxied_broker
from tests.cluster.topics import read_topic
from tests.cluster.worker_process import WorkerProcess
from tests.support import randomness
from tests.support.waiting import WAIT_S

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1500)]

BROKER_DOWN_S = randomness.size("SLUICE_BROKER_DOWN_S", 5)
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
}
# Transactions expire while a worker is frozen or cut off. It must not restart them: other workers run its tasks.
EXACTLY_ONCE = {
    "exactly.once.source.support": "enabled",
    "producer.transaction.timeout.ms": "2000",
    "consumer.isolation.level": "read_committed",
}


# The test that freezes a worker also freezes executors; in the others, workers start twice as fast without.
THREADS = {"task.executors": "0"}


def settings(exactly_once: bool) -> dict[str, str]:
    return {**QUICK, **(EXACTLY_ONCE if exactly_once else {})}


def find_worker_with_tasks(cluster: Cluster, counting: Counting) -> WorkerProcess:
    tasks = cluster.client().status(counting.source)["tasks"]
    return next(worker for worker in cluster.workers if worker.worker_id == tasks[0]["worker_id"])


@pytest.mark.parametrize(
    "exactly_once", [pytest.param(False, id="at_least_once", marks=pytest.mark.long), pytest.param(True, id="exactly_once")]
)
@pytest.mark.long
def test_instances_of_a_frozen_worker_move_and_run_only_once(tmp_path: Path, broker: EmbeddedBroker, exactly_once: bool) -> None:
    with Cluster(broker, tmp_path, 2, settings(exactly_once)) as cluster:
        cluster.start()
        counting = Counting(cluster)
        counting.create()
        frozen = find_worker_with_tasks(cluster, counting)
        started = time.monotonic()
        frozen.freeze()
        counting.wait_until_running_on(*cluster.live)
        counting.wait_until_it_counts()
        frozen.thaw()
        frozen_s = time.monotonic() - started
        cluster.wait_for_members(2)
        counting.wait_until_it_counts()
        outcome = counting.finish()
        cluster.stop()
    outcome.assert_nothing_lost()
    if exactly_once:
        outcome.assert_written_once()
        outcome.assert_one_run_at_a_time()
    # Without exactly-once nothing fences the thawed source, which catches up at its rate until the worker stops it.
    late_s = 0.0 if exactly_once else frozen_s
    outcome.assert_duplicates_bounded(1, int(counting.rate * (FLUSH_S + SLACK_S + late_s)))


@pytest.mark.long
def test_worker_cut_off_from_the_broker_stops_its_instances(tmp_path: Path) -> None:
    with (
        proxied_broker(tmp_path / "broker") as (broker, proxy),
        Cluster(broker, tmp_path, 1, {**settings(exactly_once=True), **THREADS}) as cluster,
    ):
        cut_off = cluster.add(properties={"bootstrap.servers": f"127.0.0.1:{proxy.port}"})
        cluster.start()
        counting = Counting(cluster)
        counting.create()
        assert any(one["worker_id"] == cut_off.worker_id for one in cluster.client().status(counting.source)["tasks"])
        proxy.cut()
        cut_off.wait_for(
            lambda: "stopping all its connectors and tasks" in cut_off.log_tail(), WAIT_S, "the worker to stop its tasks"
        )
        cluster.wait_for_members(1)
        counting.wait_until_running_on(cluster.workers[0])
        counting.wait_until_it_counts()
        assert cut_off.client.connectors() == cluster.client().connectors()  # REST still responds
        proxy.restore()
        cluster.wait_for_members(2)
        counting.wait_until_it_counts()
        outcome = counting.finish()
        cluster.stop()
    outcome.assert_nothing_lost()
    outcome.assert_written_once()
    outcome.assert_one_run_at_a_time()
    outcome.assert_duplicates_bounded(1, int(counting.rate * (FLUSH_S + SLACK_S)))


@pytest.mark.long  # like the test with the proxy, it costs more than the one with a frozen worker
def test_worker_that_loses_its_network_stops_its_instances(tmp_path: Path) -> None:
    with ExitStack() as stack:
        network = stack.enter_context(namespace())
        listener = f"{network.host_address}:{free_ports(1)[0]}"
        broker = stack.enter_context(broker_with_second_listener(tmp_path / "broker", listener, listener))
        cluster = stack.enter_context(Cluster(broker, tmp_path, 0, {**settings(exactly_once=False), **THREADS}))
        unaffected = cluster.add(host=network.host_address)
        cut_off = cluster.add(network.kind(), {"bootstrap.servers": listener}, host=network.namespace_address)
        cluster.start()
        counting = Counting(cluster)
        counting.create()
        assert any(one["worker_id"] == cut_off.worker_id for one in unaffected.client.status(counting.source)["tasks"])
        network.cut()
        cut_off.wait_for(
            lambda: "stopping all its connectors and tasks" in cut_off.log_tail(), WAIT_S, "the worker to stop its tasks"
        )
        cluster.wait_for_members(1)
        counting.wait_until_running_on(unaffected)
        network.restore()
        cluster.wait_for_members(2)
        counting.wait_until_it_counts()
        outcome = counting.finish()
        cluster.stop()
    outcome.assert_nothing_lost()
    outcome.assert_duplicates_bounded(1, int(counting.rate * (FLUSH_S + SLACK_S)))


@pytest.mark.harms_broker
@pytest.mark.long
def test_broker_restart_during_a_rebalance_only_delays_it(tmp_path: Path, broker: EmbeddedBroker) -> None:
    # The frozen worker delays the rebalance, so its session must not time out before the broker is killed.
    patient = {**QUICK, **THREADS, "session.timeout.ms": "60000"}
    with Cluster(broker, tmp_path, 3, patient) as cluster:
        first, second, third = cluster.workers
        cluster.start(first, second)
        counting = Counting(cluster)
        counting.create()
        second.freeze()
        third.start()
        cluster.wait_for(lambda: cluster.group().state == "PreparingRebalance", WAIT_S, "a rebalance", cluster.group)
        broker.kill()
        broker.start()
        second.thaw()
        third.wait_until_up()
        cluster.wait_for_members(3)
        counting.wait_until_it_counts()
        outcome = counting.finish()
        cluster.stop()
    outcome.assert_nothing_lost()
    outcome.assert_duplicates_bounded(1, int(counting.rate * (FLUSH_S + SLACK_S)))


@pytest.mark.harms_broker
@pytest.mark.long
def test_transactions_that_expire_while_a_broker_is_frozen_are_repeated(tmp_path: Path, broker: EmbeddedBroker) -> None:
    # No session times out meanwhile, so that no task restarts because of a rebalance.
    patient = {**settings(exactly_once=True), **THREADS, "session.timeout.ms": "30000", "heartbeat.interval.ms": "10000"}
    with Cluster(broker, tmp_path, 1, patient) as cluster:
        cluster.start()
        # A task that waits for the frozen broker to end its transaction cannot know whether it expired. With one transaction per
        # batch both tasks could be in that state, so transactions are long and the tasks mostly in the middle of one.
        long_transactions = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "500"}
        counting = Counting(cluster, tasks=2, source_settings=long_transactions)
        counting.create()
        (worker,) = cluster.workers
        pid = broker.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            restart_message = "restarts from its last committed offsets"
            worker.wait_for(lambda: restart_message in worker.log_tail(1_000_000), WAIT_S, "a restart of a task")
        finally:
            os.kill(pid, signal.SIGCONT)
        counting.wait_until_it_counts()
        outcome = counting.finish()
        statuses = read_topic(cluster.bootstrap, cluster.status_topic)
        cluster.stop()
    outcome.assert_nothing_lost()
    outcome.assert_written_once()
    assert not [one for one in statuses if b"FAILED" in (one.value or b"")]


@pytest.mark.harms_broker
@pytest.mark.long
def test_worker_waits_for_an_unavailable_broker_while_rest_responds(tmp_path: Path, broker: EmbeddedBroker) -> None:
    with Cluster(broker, tmp_path, 2, {**QUICK, **THREADS}) as cluster:
        cluster.start()
        counting = Counting(cluster)
        counting.create()
        broker.kill()
        down_until = time.monotonic() + BROKER_DOWN_S
        while time.monotonic() < down_until:
            for worker in cluster.workers:
                client: ConnectClient = worker.client
                assert counting.source in client.connectors()
                assert len(client.status(counting.source)["tasks"]) == counting.tasks
                assert client.config(counting.sink)["topics"] == counting.topic
            time.sleep(0.1)
        broker.start()
        cluster.wait_for_members(2)
        counting.wait_until_it_counts()
        outcome = counting.finish()
        cluster.stop()
    outcome.assert_nothing_lost()
    outcome.assert_duplicates_bounded(1, int(counting.rate * (FLUSH_S + SLACK_S)))
