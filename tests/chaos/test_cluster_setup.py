"""Misconfigured clusters report the cause and harm nothing: topics, brokers, authentication, a shared group.id."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.ports import LOOPBACK, free_ports
from tests.cluster.cluster import Cluster
from tests.cluster.counting import Counting
from tests.support.waiting import WAIT_S

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1500)]

HERDER_FAILED = 3
# Workers start twice as fast without executor processes.
THREADS = {"task.executors": "0"}
COMPACTED = {"cleanup.policy": "compact"}


def create_topic(broker: EmbeddedBroker, name: str, partitions: int, config: Mapping[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=dict(config))])[name].result(WAIT_S)


def log_of_failed_start(cluster: Cluster) -> str:
    """Starts a worker that must exit with HERDER_FAILED and returns its log."""
    worker = cluster.workers[0]
    worker.start()
    assert worker.wait_for_exit() == HERDER_FAILED, worker.log_tail()
    return worker.log_tail()


# tests/integration/worker/test_stores.py has the config topic.
@pytest.mark.parametrize("what", ["config", "offset", "status"])
@pytest.mark.long
def test_internal_topic_without_compaction_is_rejected(tmp_path: Path, broker: EmbeddedBroker, what: str) -> None:
    with Cluster(broker, tmp_path, 1, THREADS) as cluster:
        topic = cluster.properties[f"{what}.storage.topic"]
        create_topic(broker, topic, 1, {"cleanup.policy": "delete"})
        log = log_of_failed_start(cluster)
    assert topic in log
    assert "cleanup.policy" in log
    assert "compact" in log
    assert f"{what}.storage.topic" in log


@pytest.mark.long
def test_config_topic_with_two_partitions_is_rejected(tmp_path: Path, broker: EmbeddedBroker) -> None:
    with Cluster(broker, tmp_path, 1, THREADS) as cluster:
        create_topic(broker, cluster.configs_topic, 2, COMPACTED)
        log = log_of_failed_start(cluster)
    assert cluster.configs_topic in log
    assert "partition" in log


def test_more_replicas_than_brokers_are_rejected(tmp_path: Path, broker: EmbeddedBroker) -> None:
    with Cluster(broker, tmp_path, 1, {"status.storage.replication.factor": "3", **THREADS}) as cluster:
        log = log_of_failed_start(cluster)
    assert cluster.status_topic in log
    assert "status.storage.replication.factor" in log


@pytest.mark.long
def test_unexpected_authentication_is_reported(tmp_path: Path, broker: EmbeddedBroker) -> None:
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required username='u' password='secret1';",
    }
    with Cluster(broker, tmp_path, 1, {**login, **THREADS}) as cluster:
        log = log_of_failed_start(cluster)
    assert "security.protocol" in log or "sasl.mechanism" in log
    assert "secret1" not in log


@pytest.mark.long
def test_worker_waits_for_an_unavailable_broker_and_shuts_down_on_request(tmp_path: Path, broker: EmbeddedBroker) -> None:
    unused_address = f"{LOOPBACK}:{free_ports(1)[0]}"
    with Cluster(broker, tmp_path, 1, {"bootstrap.servers": unused_address, **THREADS}) as cluster:
        worker = cluster.workers[0]
        worker.start()
        worker.wait_for(lambda: unused_address in worker.log_tail() and "trying again" in worker.log_tail(), WAIT_S, "a warning")
        assert worker.client.health()["status"] != "healthy"
        assert worker.stop() == 0
        assert "Traceback" not in worker.log_tail()


# In the first case the intruder notices as with neither log longer, in an easier way that a unit test has.
@pytest.mark.parametrize(
    "longer_config_log",
    [pytest.param("first cluster", marks=pytest.mark.long), pytest.param("second cluster", marks=pytest.mark.long), "neither"],
)
@pytest.mark.long
def test_clusters_with_the_same_group_id_are_detected_and_keep_their_connectors(
    tmp_path: Path, broker: EmbeddedBroker, longer_config_log: str
) -> None:
    short_timeouts = {
        "session.timeout.ms": "1500",
        "heartbeat.interval.ms": "300",
        "scheduled.rebalance.max.delay.ms": "0",
        **THREADS,
    }
    with Cluster(broker, tmp_path, 1, short_timeouts) as first:
        first.start()
        counting = Counting(first, tasks=1)
        counting.create()
        with Cluster(broker, tmp_path / "other", 1, short_timeouts) as second:
            # Both clusters get connectors; then the second restarts with the group.id of the first.
            second.start()
            second_counting = Counting(second, tasks=1)
            second_counting.create()
            if longer_config_log != "neither":
                is_first = longer_config_log == "first cluster"
                cluster, name = (first, counting.source) if is_first else (second, second_counting.source)
                cluster.send("PUT", f"/connectors/{name}/pause")
                cluster.send("PUT", f"/connectors/{name}/resume")
            second.stop()
            before = first.configs(), second.configs()
            intruder = second.workers[0]
            intruder.properties["group.id"] = first.group_id
            intruder.start()
            first.wait_for(
                lambda: any("group.id" in cluster.workers[0].log_tail() for cluster in (first, second)),
                WAIT_S,
                "a report of the shared group.id",
                second.log_tails,
            )
            assert (without_session_key(first.configs()), without_session_key(second.configs())) == (
                without_session_key(before[0]),
                without_session_key(before[1]),
            )
            intruder.stop()
        first.wait_for_members(1)
        counting.wait_until_it_counts()
        outcome = counting.finish()
        first.stop()
    outcome.assert_nothing_lost()


def without_session_key(configs: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in configs.items() if key != "session-key"}
