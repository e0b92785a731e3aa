"""Which states are written and which are believed; settings of the clients of internal topics."""

from __future__ import annotations

import pytest

from tests.unit.worker.storage import recorded
from worker.config.worker_config import WorkerConfig
from worker.model import State, Status
from worker.storage import topic_logs
from worker.storage.record_codec import StatusRecord, decode_status
from worker.storage.status_store import is_late, may_write


def status(state: State, worker: str, generation: int) -> Status:
    return Status(state, worker, None, generation)


RUNNING_AT_B = status(State.RUNNING, "b", 5)


@pytest.mark.parametrize(
    ("known", "worker", "generation", "written"),
    [
        (None, "a", 1, True),
        (RUNNING_AT_B, "b", 1, True),  # its own: it knows
        (RUNNING_AT_B, "a", 5, True),
        (RUNNING_AT_B, "a", 6, True),
        (RUNNING_AT_B, "a", 4, False),
    ],
)
def test_a_late_word_is_not_written_over_a_newer_one_of_another_worker(
    known: Status | None, worker: str, generation: int, written: bool
) -> None:
    assert may_write(known, status(State.FAILED, worker, generation)) is written


@pytest.mark.parametrize(
    ("known", "read", "late"),
    [
        (None, status(State.UNASSIGNED, "a", 5), False),
        (RUNNING_AT_B, status(State.UNASSIGNED, "a", 4), True),
        (RUNNING_AT_B, status(State.UNASSIGNED, "a", 5), True),
        (RUNNING_AT_B, status(State.UNASSIGNED, "a", 6), False),
        (RUNNING_AT_B, status(State.UNASSIGNED, "b", 5), False),
        (RUNNING_AT_B, status(State.FAILED, "a", 4), False),
        (status(State.PAUSED, "b", 5), status(State.UNASSIGNED, "a", 4), False),
    ],
)
def test_a_late_unassigned_is_not_believed_of_a_task_that_runs(known: Status | None, read: Status, late: bool) -> None:
    assert is_late(known, read) is late


def test_of_a_recorded_cluster_no_state_of_a_stopped_task_is_taken_for_late() -> None:
    # In the recordings each UNASSIGNED is either of the worker that ran the task, or newer.
    known: dict[object, Status] = {}
    for step in recorded.steps("life_cycle"):
        for record in step.of("status"):
            match decode_status(record.key, record.value):
                case StatusRecord(instance, None):
                    known.pop(instance, None)
                case StatusRecord(instance, found) if found is not None:
                    assert not is_late(known.get(instance), found)
                    known[instance] = found


def worker(**more: str) -> WorkerConfig:
    given = {
        "bootstrap.servers": "b1:1,b2:2",
        "group.id": "cluster",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "config.storage.topic": "configs",
        "offset.storage.topic": "offsets",
        "status.storage.topic": "statuses",
        "producer.acks": "0",
    }
    return WorkerConfig.for_cluster({**given, **{key.replace("_", "."): value for key, value in more.items()}})


def test_client_ids_are_apaches() -> None:
    plain, named = worker(), worker(client_id="w1")
    assert topic_logs.config_log(plain).consumer["client.id"] == "cluster-configs"
    assert topic_logs.offset_log(plain).producer["client.id"] == "cluster-offsets"
    assert topic_logs.status_log(named).consumer["client.id"] == "cluster-w1-statuses"
    assert topic_logs.status_log(named).admin["client.id"] == "cluster-w1-shared-admin"
    leader = topic_logs.config_log(worker(exactly_once_source_support="preparing")).leader
    assert leader is not None
    assert (leader["client.id"], leader["transactional.id"]) == ("cluster-configs-leader", "connect-cluster-cluster")


def test_topics_have_apaches_partitions_and_the_workers_settings() -> None:
    config = worker(offset_storage_compression_type="lz4", status_storage_partitions="-1", config_storage_partitions="7")
    made = [log(config).topic for log in (topic_logs.config_log, topic_logs.offset_log, topic_logs.status_log)]
    assert [(topic.name, topic.partitions, topic.replication_factor) for topic in made] == [
        ("configs", 1, 3),
        ("offsets", 25, 3),
        ("statuses", -1, 3),
    ]
    assert made[1].configs == {"compression.type": "lz4"}
    assert [topic.single_partition for topic in made] == [True, False, False]


@pytest.mark.parametrize(("support", "leads", "committed"), [("disabled", 0, 0), ("preparing", 1, 0), ("enabled", 1, 1)])
def test_only_with_exactly_once_a_leader_writes_transactions_and_they_are_read_as_such(
    support: str, leads: bool, committed: bool
) -> None:
    config = worker(exactly_once_source_support=support)
    settings = topic_logs.config_log(config)
    assert (settings.leader is not None) == leads
    isolation = "read_committed" if committed else None
    assert settings.consumer.get("isolation.level") == isolation
    assert topic_logs.offset_log(config).consumer.get("isolation.level") == isolation
    assert topic_logs.status_log(config).consumer.get("isolation.level") is None


def test_settings_for_connectors_clients_are_not_those_of_the_worker() -> None:
    settings = topic_logs.config_log(worker(security_protocol="SSL", max_request_size="2000000"))
    assert "acks" not in settings.producer
    assert settings.producer["max.request.size"] == "2000000"
    assert settings.consumer["security.protocol"] == "SSL"


def test_a_connectors_own_topic_has_its_clients_and_is_read_committed() -> None:
    client = {"bootstrap.servers": "other:1", "client.id": "x"}
    settings = topic_logs.own_offset_log(worker(), "own", {**client, "group.id": "connect-c"}, client, client)
    assert (settings.topic.name, settings.topic.partitions, settings.topic.setting) == ("own", 25, "offsets.storage.topic")
    assert settings.consumer["isolation.level"] == "read_committed"
    assert settings.consumer["bootstrap.servers"] == "other:1"
    free = {**client, "isolation.level": "read_uncommitted"}
    assert topic_logs.own_offset_log(worker(), "own", free, client, client).consumer["isolation.level"] == "read_uncommitted"
    forced = topic_logs.own_offset_log(worker(exactly_once_source_support="enabled"), "own", free, client, client)
    assert forced.consumer["isolation.level"] == "read_committed"
