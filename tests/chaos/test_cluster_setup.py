"""Clusters that are set up wrongly say what is wrong and harm nothing: topics, brokers, logins, one group.id for two clusters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.ports import LOOPBACK, free_ports
from tests.cluster.cluster import Cluster
from tests.cluster.counting import RECOVERY_S, Counting

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1500)]

HERDER_FAILED = 3
# A worker starts in half the time without processes.
THREADS = {"task.executors": "0"}
COMPACTED = {"cleanup.policy": "compact"}


def make_topic(broker: EmbeddedBroker, name: str, partitions: int, config: Mapping[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=dict(config))])[name].result(30)


def refused(cluster: Cluster) -> str:
    """The log of a worker that ends by itself, with the exit code of one that cannot do its work."""
    worker = cluster.workers[0]
    worker.start()
    assert worker.wait_for_exit(RECOVERY_S) == HERDER_FAILED, worker.log_tail()
    return worker.log_tail()


@pytest.mark.parametrize("what", ["config", "offset", "status"])
def test_internal_topic_without_compaction_is_rejected(tmp_path: Path, broker: EmbeddedBroker, what: str) -> None:
    with Cluster(broker, tmp_path, 1, THREADS) as cluster:
        topic = cluster.properties[f"{what}.storage.topic"]
        make_topic(broker, topic, 1, {"cleanup.policy": "delete"})
        told = refused(cluster)
    assert topic in told
    assert "cleanup.policy" in told
    assert "compact" in told
    assert f"{what}.storage.topic" in told


def test_config_topic_with_two_partitions_is_rejected(tmp_path: Path, broker: EmbeddedBroker) -> None:
    with Cluster(broker, tmp_path, 1, THREADS) as cluster:
        make_topic(broker, cluster.configs_topic, 2, COMPACTED)
        told = refused(cluster)
    assert cluster.configs_topic in told
    assert "partition" in told


def test_more_replicas_than_brokers_are_rejected(tmp_path: Path, broker: EmbeddedBroker) -> None:
    with Cluster(broker, tmp_path, 1, {"status.storage.replication.factor": "3", **THREADS}) as cluster:
        told = refused(cluster)
    assert cluster.status_topic in told
    assert "status.storage.replication.factor" in told


def test_unexpected_authentication_is_reported(tmp_path: Path, broker: EmbeddedBroker) -> None:
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required username='u' password='secret1';",
    }
    with Cluster(broker, tmp_path, 1, {**login, **THREADS}) as cluster:
        told = refused(cluster)
    assert "security.protocol" in told or "sasl.mechanism" in told
    assert "secret1" not in told


def test_worker_waits_for_an_unavailable_broker_and_shuts_down_on_request(tmp_path: Path, broker: EmbeddedBroker) -> None:
    nobody = f"{LOOPBACK}:{free_ports(1)[0]}"
    with Cluster(broker, tmp_path, 1, {"bootstrap.servers": nobody, **THREADS}) as cluster:
        worker = cluster.workers[0]
        worker.start()
        worker.wait_for(lambda: nobody in worker.log_tail() and "trying again" in worker.log_tail(), RECOVERY_S, "a warning")
        assert worker.client.health()["status"] != "healthy"
        assert worker.stop() == 0
        assert "Traceback" not in worker.log_tail()


@pytest.mark.parametrize("longer", ["the leader's", "the stranger's", "none"])
def test_clusters_with_the_same_group_id_are_detected_and_keep_their_connectors(
    tmp_path: Path, broker: EmbeddedBroker, longer: str
) -> None:
    quick = {
        "session.timeout.ms": "1500",
        "heartbeat.interval.ms": "300",
        "scheduled.rebalance.max.delay.ms": "0",
        **THREADS,
    }
    with Cluster(broker, tmp_path, 1, quick) as one:
        one.start()
        counting = Counting(one, tasks=1)
        counting.create()
        with Cluster(broker, tmp_path / "other", 1, quick) as other:
            # Its own connectors first, so that both have some; then it is stopped, and comes back with the other's group.id.
            other.start()
            theirs = Counting(other, tasks=1)
            theirs.create()
            if longer != "none":
                cluster, name = (one, counting.source) if longer == "the leader's" else (other, theirs.source)
                cluster.send("PUT", f"/connectors/{name}/pause")
                cluster.send("PUT", f"/connectors/{name}/resume")
            other.stop()
            before = one.configs(), other.configs()
            stranger = other.workers[0]
            stranger.properties["group.id"] = one.group_id
            stranger.start()
            one.wait_for(
                lambda: any("group.id" in cluster.workers[0].log_tail() for cluster in (one, other)),
                RECOVERY_S,
                "somebody to tell of the two clusters",
                other.log_tails,
            )
            assert (keys_of(one.configs()), keys_of(other.configs())) == (keys_of(before[0]), keys_of(before[1]))
            stranger.stop()
        one.wait_for_members(1)
        counting.wait_until_it_counts()
        outcome = counting.finish()
        one.stop()
    outcome.assert_nothing_lost()


def keys_of(configs: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in configs.items() if key != "session-key"}
