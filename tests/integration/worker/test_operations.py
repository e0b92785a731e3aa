"""What operators do: offsets moved, failed tasks that heal, connectors of a directory, configurations rolled back."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from connect.errors import BadRequestError, ConnectError, NotFoundError
from connect.record import TopicPartition
from sluice.embedded.broker import EmbeddedBroker
from tests.integration.worker.conftest import STRING, StartWorker, StateHistory, Worker
from tests.support.waiting import WAIT_S, eventually
from worker.config.worker_config import WorkerConfig
from worker.model import OffsetEntry, Origin, State, TargetState
from worker.operations.history.topic import create_history, history_topic
from worker.operations.offsets.sink_groups import SinkGroups

Name = Callable[[str], str]
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
MOCK = "org.apache.kafka.connect.tools.MockSinkConnector"


def make_topic(broker: EmbeddedBroker, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(WAIT_S)


def stop(worker: Worker, name: str) -> None:
    worker.herder.set_target_state(name, TargetState.STOPPED)
    eventually(lambda: worker.herder.connector_status(name).connector.state is State.STOPPED, f"{name} STOPPED")


# --- offsets


def test_source_with_reset_offsets_reads_again(worker: Worker, tmp_path: Path, unique_name: Name) -> None:
    name, file = unique_name("c"), tmp_path / "in.txt"
    file.write_text("one\ntwo\n")
    worker.create(name, {"connector.class": SOURCE, "file": str(file), "topic": name})
    assert worker.values(name, 2) == ["one", "two"]
    entry = OffsetEntry({"filename": str(file)}, {"position": 4})
    with pytest.raises(BadRequestError, match="must be in the STOPPED state"):
        worker.herder.alter_offsets(name, [entry])
    stop(worker, name)
    assert worker.herder.offsets(name) == [OffsetEntry({"filename": str(file)}, {"position": 8})]
    with pytest.raises(ConnectError, match="'position' key in the offset should be a non-negative value"):
        worker.herder.alter_offsets(name, [OffsetEntry({"filename": str(file)}, {"position": -1})])
    worker.herder.alter_offsets(name, [entry])
    assert worker.herder.offsets(name) == [entry]
    worker.herder.set_target_state(name, TargetState.STARTED)
    assert worker.values(name, 3) == ["one", "two", "two"]
    stop(worker, name)
    worker.herder.alter_offsets(name, None)
    assert worker.herder.offsets(name) == []


def test_offset_change_waits_for_the_preceding_stop(worker: Worker, tmp_path: Path, unique_name: Name) -> None:
    name = unique_name("c")
    worker.create(name, {"connector.class": SOURCE, "file": str(tmp_path / "none"), "topic": name})
    worker.herder.set_target_state(name, TargetState.STOPPED)
    assert worker.herder.alter_offsets(name, None) == "The offsets for this connector have been reset successfully"


def groups(bootstrap: str) -> SinkGroups:
    props = {"key.converter": STRING, "value.converter": STRING, "offset.storage.file.filename": "none"}
    return SinkGroups(WorkerConfig.standalone({**props, "bootstrap.servers": bootstrap}))


def test_single_partitions_of_a_group_are_changed_and_removed(broker: EmbeddedBroker, unique_name: Name) -> None:
    topic, name = unique_name("t"), unique_name("c")
    make_topic(broker, topic, 3)
    tps = [TopicPartition(topic, number) for number in range(3)]
    sinks, config = groups(broker.bootstrap), {"consumer.override.group.id": unique_name("own")}
    assert sinks.offsets(name, config) == []
    for of_topics in ({"topics": f"nope, {topic}"}, {"topics.regex": f"{topic}|nope"}):
        assert sinks.partitions(name, {**config, **of_topics}) == set(tps)  # which the sink may know, although the group does not
    sinks.reset(name, config)
    sinks.alter(name, config, {tps[0]: 5, tps[1]: 6})
    sinks.alter(name, config, {tps[2]: 7, tps[0]: None})
    assert sinks.committed(name, config) == {tps[1]: 6, tps[2]: 7}
    assert sinks.committed(name, {}) == {}
    sinks.require_changeable(name, config, {tps[1]: None, tps[0]: 1, TopicPartition(f"{topic}-nope", 0): None})
    with pytest.raises(ConnectError, match=f"^Failed to alter consumer group offsets for connector {name}$"):
        sinks.require_changeable(name, config, {tps[1]: None, tps[0]: 1, TopicPartition(f"{topic}-nope", 0): 1})
    sinks.alter(name, config, {tps[0]: None, tps[1]: 1})
    assert sinks.committed(name, config) == {tps[1]: 1, tps[2]: 7}
    sinks.alter(name, config, {tps[1]: None, tps[2]: None})
    assert sinks.offsets(name, config) == []


def test_group_is_on_the_cluster_of_its_consumers(broker: EmbeddedBroker, unique_name: Name) -> None:
    topic, name = unique_name("t"), unique_name("c")
    make_topic(broker, topic)
    sinks = groups("127.0.0.1:1")  # the worker's own cluster is another one
    elsewhere = {"consumer.override.bootstrap.servers": broker.bootstrap}
    sinks.alter(name, elsewhere, {TopicPartition(topic, 0): 3})
    entries = [OffsetEntry({"kafka_topic": topic, "kafka_partition": 0}, {"kafka_offset": 3})]
    assert sinks.offsets(name, elsewhere) == entries
    assert sinks.offsets(name, {"admin.override.bootstrap.servers": broker.bootstrap}) == entries
    with pytest.raises(ConnectError, match=r"no Kafka broker answers at 127\.0\.0\.1:1\. Check bootstrap\.servers"):
        sinks.offsets(name, {**elsewhere, "admin.override.bootstrap.servers": "127.0.0.1:1"})


@pytest.fixture
def member(broker: EmbeddedBroker, unique_name: Name) -> Iterator[tuple[str, str]]:
    """A topic, and a connector whose group somebody consumes as."""
    topic, name = unique_name("t"), unique_name("c")
    make_topic(broker, topic)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"connect-{name}"})
    assigned = threading.Event()
    consumer.subscribe([topic], on_assign=lambda *_: assigned.set())

    def is_assigned() -> bool:
        consumer.poll(0.1)  # may give an error, as long as the broker does not know the new topic everywhere
        return assigned.is_set()

    eventually(is_assigned, "the member has its partition")
    yield topic, name
    consumer.close()


def test_group_in_use_is_not_changed(broker: EmbeddedBroker, member: tuple[str, str]) -> None:
    topic, name = member
    sinks = groups(broker.bootstrap)
    said = "offsets for connector {} either because its tasks haven't stopped completely yet"
    changes: list[tuple[Callable[[], object], str]] = [
        (lambda: sinks.require_changeable(name, {}, None), "reset"),
        (lambda: sinks.reset(name, {}), "reset"),
        (lambda: sinks.alter(name, {}, {TopicPartition(topic, 0): 1}), "alter"),
    ]
    for change, doing in changes:
        with pytest.raises(ConnectError, match=f"^Failed to {doing} consumer group {said.format(name)}"):
            change()


def test_reset_sink_reads_from_the_beginning(worker: Worker, broker: EmbeddedBroker, tmp_path: Path, unique_name: Name) -> None:
    name, out = unique_name("c"), tmp_path / "out.txt"
    make_topic(broker, name)
    worker.produce(name, ["a", "b"])
    worker.create(name, {"connector.class": SINK, "topics": name, "file": str(out)})
    eventually(lambda: out.exists() and out.read_text() == "a\nb\n", "the records are in the file")
    stop(worker, name)
    assert [entry.offset for entry in worker.herder.offsets(name)] == [{"kafka_offset": 2}]
    worker.herder.alter_offsets(name, [OffsetEntry({"kafka_topic": name, "kafka_partition": "0"}, {"kafka_offset": "1"})])
    worker.herder.set_target_state(name, TargetState.STARTED)
    eventually(lambda: out.read_text() == "a\nb\nb\n", "the last record again")
    stop(worker, name)
    worker.herder.alter_offsets(name, None)
    assert worker.herder.offsets(name) == []


# --- automatic restarts


def test_failed_task_is_restarted_up_to_the_maximum(
    start_worker: StartWorker, broker: EmbeddedBroker, state_history: StateHistory, unique_name: Name
) -> None:
    worker, name = start_worker(errors_restart_delay_initial_ms="200"), unique_name("c")
    make_topic(broker, name)
    mock = {"connector.class": MOCK, "topics": name, "mock_mode": "task-failure", "delay_ms": "0"}
    worker.create(name, {**mock, "errors.restart.max.attempts": "2"})

    def restarts() -> tuple[State, int | None, int | None]:
        task = dict(worker.herder.connector_status(name).tasks)[0]
        if task.restarts is None:
            return task.state, None, None
        return task.state, task.restarts.count, task.restarts.next_ms

    def has_failed(times: int) -> bool:
        """So often that it will stay so. While a restart begins the state is that of the failure before, and none is due."""
        return state_history.of(name, 0).count(State.FAILED) == times and restarts() == (State.FAILED, 2, None)

    eventually(lambda: has_failed(3), "FAILED for good after two restarts")
    # By hand it begins anew.
    worker.herder.restart_connector(name, include_tasks=True, only_failed=True)
    eventually(lambda: has_failed(6), "FAILED for good once more")
    worker.herder.put_connector(name, mock, replace=True)
    worker.wait_for(name, State.FAILED)
    assert restarts() == (State.FAILED, None, None)


def test_stopped_or_deleted_connector_is_not_restarted(start_worker: StartWorker, unique_name: Name) -> None:
    worker, name = start_worker(errors_restart_max_attempts="-1", errors_restart_delay_initial_ms="60000"), unique_name("c")
    worker.create(name, {"connector.class": SOURCE, "file": "/", "topic": name})  # a folder is no file
    worker.wait_for(name, State.FAILED)

    def is_announced() -> bool:
        shown = worker.herder.connector_status(name).tasks[0][1].restarts
        return shown is not None and shown.next_ms is not None

    eventually(is_announced, "a restart is announced")
    worker.herder.set_target_state(name, TargetState.PAUSED)
    eventually(lambda: worker.herder.connector_status(name).connector.state is State.PAUSED, "PAUSED")
    assert not is_announced()
    worker.herder.set_target_state(name, TargetState.STARTED)
    eventually(is_announced, "announced again after the pause")
    worker.herder.delete_connector(name)
    assert worker.herder._auto_restart._scheduler.state(name, 0) is None


# --- connectors of a directory, and history


def test_connectors_follow_their_files(start_worker: StartWorker, tmp_path: Path, unique_name: Name) -> None:
    folder, name, other = tmp_path / "connectors", unique_name("c"), unique_name("d")
    folder.mkdir()
    worker = start_worker(connectors_dir=str(folder))
    herder = worker.herder
    config = {"connector.class": SOURCE, "file": str(tmp_path / "in"), "topic": name}
    herder.put_connector(other, config, replace=False)
    draft = folder / "draft"
    draft.write_text(json.dumps({"name": name, "config": config, "initial_state": "STOPPED"}))
    (folder / "bad.json").write_text("{")
    draft.rename(folder / "c.json")
    herder.started()

    def is_stopped() -> bool:
        return name in herder.connectors() and herder.connector_status(name).connector.state is State.STOPPED

    eventually(is_stopped, "created")
    eventually(lambda: [f.state for f in herder.connector_files()] == ["invalid", "applied"], "told what became of the files")
    assert [one.origin for one in herder.history(name)] == [Origin.DIRECTORY]
    (folder / "bad.json").unlink()
    (folder / "c.json").write_text(json.dumps({"name": name, "config": {**config, "batch.size": 7}}))
    eventually(lambda: herder.connector_info(name).config.get("batch.size") == "7", "changed")
    eventually(is_stopped, "stopped as it was")
    (folder / "c.json").unlink()
    eventually(lambda: herder.connectors() == [other], "deleted, and the other one left alone")


def test_rollback_restores_an_earlier_configuration(worker: Worker, tmp_path: Path, unique_name: Name) -> None:
    name = unique_name("c")
    config = {"connector.class": SOURCE, "file": str(tmp_path / "in"), "topic": name}
    worker.create(name, config)
    worker.herder.patch_connector(name, {"batch.size": "7"})
    info, created = worker.herder.rollback(name, 1)
    assert (dict(info.config), created) == ({**config, "name": name}, False)
    worker.herder.delete_connector(name)
    assert [one.origin for one in worker.herder.history(name)] == [Origin.REST, Origin.REST, Origin.ROLLBACK, Origin.REST]
    with pytest.raises(BadRequestError, match="is its deletion"):
        worker.herder.rollback(name, 4)
    info, created = worker.herder.rollback(name, 2)
    assert (info.config["batch.size"], created) == ("7", True)
    with pytest.raises(NotFoundError, match="No history found for connector nobody"):
        worker.herder.history("nobody")


def test_workers_of_a_cluster_share_the_history(broker: EmbeddedBroker, unique_name: Name) -> None:
    group = unique_name("cluster")
    props = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "key.converter": STRING,
        "value.converter": STRING,
        "config.history.size": "2",
        **{f"{what}.storage.topic": f"{group}-{what}" for what in ("config", "offset", "status")},
        **{f"{what}.storage.replication.factor": "1" for what in ("config", "offset", "status")},
    }
    configs = [WorkerConfig.for_cluster(props) for _ in range(2)]
    topic = history_topic(configs[0])
    assert topic == f"{group}-config-history"
    one, other = [create_history(config) for config in configs]
    for history in (one, other):
        history.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert topic not in admin.list_topics(timeout=WAIT_S).topics
        one.record("c", {"x": "1"}, Origin.DIRECTORY)
        eventually(lambda: len(other.versions("c")) == 1, "the other worker sees it")
        assert other.managed() == {"c"}
        other.observe("c", {"x": "1"})
        other.record("c", {"x": "2"}, Origin.REST)
        other.record("c", None, Origin.REST)
        eventually(lambda: [v.version for v in one.versions("c")] == [2, 3], "versions go on, and the oldest has gone")
        assert one.version("c", 2).config == {"x": "2"}
        assert one.managed() == set()
    finally:
        one.close()
        other.close()
    late = create_history(configs[0])
    late.start()
    assert [v.version for v in late.versions("c")] == [2, 3]
    late.close()
