"""Source tasks with exactly-once against a real broker: what readers of committed records see, and what they do not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from connect import ConnectError, SourceRecord
from connect.plugins import Plugins
from sluice.embedded.broker import EmbeddedBroker
from tests.integration.worker.conftest import FAKES
from tests.integration.worker.fakes import source_record
from tests.integration.worker.transactions import Setting, read_topic, script_large_batch
from tests.support.waiting import WAIT_S, eventually
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.executor import ConnectorSpec, TaskSpec
from worker.executors.local import LocalExecutor
from worker.kafka.fencing import fence_producers
from worker.model import Stall, State, TaskId

Name = Callable[[str], str]


def test_each_poll_is_a_transaction_with_its_offsets(setting: Setting) -> None:
    setting.script.batches = [setting.records("a", "b"), setting.records("c", first=2)]
    run = setting.tasks.start(setting.name, run=7)
    eventually(lambda: len(setting.script.commits) == 2, "both transactions")
    setting.wait_for_markers()
    assert setting.read() == ["a", "b", "c"]
    assert setting.offset() == 2
    assert setting.script.commits == [[({"source": "p"}, {"offset": 1})], [({"source": "p"}, {"offset": 2})]]
    # The task was confirmed before it started, and the worker knows what is committed.
    expected = [f"confirm 7 {setting.name}-0", "committed [{'offset': 1}]", "committed [{'offset': 2}]"]
    assert setting.services.calls == expected
    assert run.listener.topics == [{setting.topic}]
    run.stop()
    assert run.listener.error is None


def test_a_task_continues_from_the_offsets_of_its_last_transaction(setting: Setting) -> None:
    setting.script.batches = [setting.records("a", "b")]
    run = setting.tasks.start(setting.name)
    eventually(lambda: setting.offset() == 1, "the transaction")
    run.stop()
    setting.script.batches = []
    run = setting.tasks.start(setting.name)
    run.wait_until_running()
    assert setting.script.context is not None
    assert setting.script.context.offset_reader.offset({"source": "p"}) == {"offset": 1}


def test_by_interval_records_gather_and_a_stop_commits_them(setting: Setting) -> None:
    setting.script.batches = [setting.records("a"), setting.records("b", first=1)]
    run = setting.tasks.start(setting.name, transaction_boundary="interval", transaction_boundary_interval_ms="600000")
    eventually(lambda: setting.read(committed=False) == ["a", "b"], "both records, not committed")
    assert setting.read() == []
    assert setting.offset() is None
    run.stop()
    setting.wait_for_markers()
    assert setting.read() == ["a", "b"]
    assert setting.offset() == 1


def test_records_are_committed_when_the_transaction_interval_ends(setting: Setting) -> None:
    setting.script.batches = [setting.records("a"), setting.records("b", first=1)]
    setting.tasks.start(setting.name, transaction_boundary="interval", transaction_boundary_interval_ms="300")
    eventually(lambda: setting.offset() == 1, "the commit, though nothing more is polled")
    assert setting.read() == ["a", "b"]


def test_a_pause_commits_the_open_transaction(setting: Setting) -> None:
    setting.script.batches = [setting.records("a")]
    run = setting.tasks.start(setting.name, transaction_boundary="interval", transaction_boundary_interval_ms="600000")
    eventually(lambda: setting.read(committed=False) == ["a"], "the record, not committed")
    run.task.control.set_paused(True)
    eventually(lambda: setting.offset() == 0, "the commit")
    assert setting.read() == ["a"]
    run.task.control.set_paused(False)
    setting.script.batches.append(setting.records("b", first=1))
    eventually(lambda: setting.read(committed=False) == ["a", "b"], "it goes on")
    assert run.listener.events == ["running", "paused", "running"]


def test_the_task_sets_its_own_boundaries(setting: Setting) -> None:
    batch = setting.records("a", "b", "c", "d")

    def marked() -> list[SourceRecord]:
        setting.transactions.commit_transaction(batch[1])
        return batch

    def at_the_end() -> list[SourceRecord]:
        setting.transactions.commit_transaction()
        return setting.records("e", first=4)

    setting.poll_with(marked)
    run = setting.tasks.start(setting.name, transaction_boundary="connector")
    eventually(lambda: setting.read(committed=False) == ["a", "b", "c", "d"], "the batch")
    assert setting.read() == ["a", "b"]
    assert setting.offset() == 1
    setting.poll_with(at_the_end)
    eventually(lambda: setting.offset() == 4, "the commit after a batch")
    assert setting.read() == ["a", "b", "c", "d", "e"]
    run.stop()


def test_a_stop_does_not_commit_a_transaction_that_the_task_left_open(setting: Setting) -> None:
    setting.poll_with(lambda: setting.records("a"))
    run = setting.tasks.start(setting.name, transaction_boundary="connector")
    eventually(lambda: setting.read(committed=False) == ["a"], "the record")
    run.stop()
    assert setting.read() == []
    assert setting.offset() is None


@pytest.mark.parametrize("by_record", [True, False])
def test_aborted_records_are_discarded_and_their_offsets_are_stored(setting: Setting, by_record: bool) -> None:
    def aborted() -> list[SourceRecord]:
        batch = setting.records("a", "b")
        setting.transactions.abort_transaction(batch[1] if by_record else None)
        return batch

    def committed() -> list[SourceRecord]:
        setting.transactions.commit_transaction()
        return setting.records("c", first=2)

    setting.poll_with(aborted, committed)
    run = setting.tasks.start(setting.name, confirming=True, transaction_boundary="connector")
    eventually(lambda: len(setting.script.confirmed) == 3, "the transaction after it")
    setting.wait_for_markers()
    assert setting.offset() == 2
    assert setting.read() == ["c"]
    assert setting.script.commits[0] == [({"source": "p"}, {"offset": 1})]
    found = [(record.value, metadata is not None) for record, metadata in setting.script.confirmed]
    assert found == [("a", False), ("b", False), ("c", True)]
    assert run.listener.error is None


def test_both_ends_for_one_record_fail_the_task(setting: Setting) -> None:
    def both() -> list[SourceRecord]:
        batch = setting.records("a")
        setting.transactions.commit_transaction(batch[0])
        setting.transactions.abort_transaction(batch[0])
        return batch

    setting.poll_with(both)
    run = setting.tasks.start(setting.name, transaction_boundary="connector")
    assert "Connector requested both commit and abort of same record" in run.failure()


def test_records_are_confirmed_once_they_are_committed(setting: Setting) -> None:
    setting.script.batches = [setting.records("a", "drop", "b")]
    transform = {"transforms": "up", "transforms_up_type": f"{FAKES}:Upper"}
    setting.tasks.start(setting.name, transform, confirming=True)
    eventually(lambda: len(setting.script.confirmed) == 3, "commit_record")
    setting.wait_for_markers()
    assert setting.read() == ["A", "B"]
    places = [metadata and (metadata.topic, metadata.offset) for _, metadata in setting.script.confirmed]
    assert places == [(setting.topic, 0), None, (setting.topic, 1)]


def test_offsets_of_dropped_records_are_stored_when_the_task_stops(setting: Setting) -> None:
    setting.script.batches = [setting.records("drop"), setting.records("drop", first=1)]
    run = setting.tasks.start(setting.name, transforms="up", transforms_up_type=f"{FAKES}:Upper")
    eventually(lambda: not setting.script.batches, "the polls")
    assert setting.script.commits == []
    run.stop()
    setting.wait_for_markers()
    assert setting.offset() == 1


def test_the_open_transaction_of_a_failed_task_is_not_committed(setting: Setting) -> None:
    def broken() -> list[SourceRecord]:
        raise ValueError("lost the connection")

    setting.poll_with(lambda: setting.records("a"), broken)
    run = setting.tasks.start(setting.name, transaction_boundary="interval", transaction_boundary_interval_ms="600000")
    assert "lost the connection" in run.failure()
    assert setting.read() == []
    assert setting.offset() is None


def test_a_replaced_task_commits_nothing(setting: Setting) -> None:
    gathering = {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "600000"}
    setting.script.batches = [setting.records("a")]
    first = setting.tasks.start(setting.name, gathering)
    eventually(lambda: setting.read(committed=False) == ["a"], "the record, not committed")
    # As after a rebalance that the first worker has not heard of. Both read from where nothing is committed.
    second = setting.tasks.start(setting.name, gathering, run=2)
    second.wait_until_running()
    first.stop()  # which would commit
    assert setting.read() == []
    setting.script.batches = [setting.records("a")]
    eventually(lambda: setting.read(committed=False) == ["a", "a"], "the record by the second")
    second.stop()
    setting.wait_for_markers()
    assert setting.read() == ["a"]


def test_a_fenced_task_fails_with_apaches_message(setting: Setting) -> None:
    go_on = threading.Event()
    setting.poll_with(lambda: setting.records("a"), lambda: setting.records("late", first=1) if go_on.wait(WAIT_S) else None)
    run = setting.tasks.start(setting.name, transaction_boundary="interval", transaction_boundary_interval_ms="600000")
    eventually(lambda: setting.read(committed=False) == ["a"], "the record, not committed")
    fence_producers({"bootstrap.servers": setting.bootstrap}, [f"group-{setting.name}-0"], WAIT_S)
    go_on.set()
    text = run.failure()
    assert text.startswith(f"Failed to flush offsets and/or records for task {setting.name}-0: ")
    assert "There is a newer producer with the same transactionalId which fences the current one." in text
    assert setting.read() == []


def test_a_task_that_is_no_longer_this_workers_does_not_start(setting: Setting) -> None:
    setting.services.refusal = ConnectError("the task has already been revoked from this worker")
    run = setting.tasks.start(setting.name)
    assert "already been revoked" in run.failure()
    assert setting.script.context is None


def test_a_null_offset_is_reported_before_it_is_stored_as_a_tombstone(setting: Setting) -> None:
    forgotten = source_record(setting.topic, "b", 1)
    forgotten.source_offset = None
    setting.script.batches = [setting.records("a"), [forgotten]]
    setting.tasks.start(setting.name)
    eventually(lambda: "committed [None]" in setting.services.calls, "the second transaction")
    assert setting.services.calls[1:] == ["committed [{'offset': 0}]", "before [None]", "committed [None]"]
    setting.wait_for_markers()
    assert setting.offset() is None
    assert [value for _, value in read_topic(setting.bootstrap, setting.services.topic)] == [b'{"offset":0}', None]


def test_records_for_the_connectors_offsets_topic_are_rejected(setting: Setting) -> None:
    setting.script.batches = [[source_record(setting.services.topic, "x", 0)]]
    run = setting.tasks.start(setting.name)
    assert "Source tasks may not produce to their own offsets topics when exactly-once support is enabled" in run.failure()
    assert read_topic(setting.bootstrap, setting.services.topic) == []


def test_a_record_that_the_topic_rejects_fails_the_task_even_with_tolerance(setting: Setting, unique_name: Name) -> None:
    small = unique_name("small")
    new = NewTopic(small, 1, 1, config={"max.message.bytes": "200"})
    admin = AdminClient({"bootstrap.servers": setting.bootstrap})
    admin.create_topics([new])[small].result(WAIT_S)
    setting.script.batches = [[*setting.records("a"), source_record(small, "x" * 5000, 1)]]
    run = setting.tasks.start(setting.name, errors_tolerance="all")
    text = run.failure()
    assert f"a record for topic {small}" in text, text
    assert "max.message.bytes" in text
    assert setting.read() == []


def test_a_topic_that_takes_no_large_batches_gets_smaller_ones(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    config = ConfigResource(
        ResourceType.TOPIC,
        setting.topic,
        incremental_configs=[ConfigEntry("max.message.bytes", "400000", incremental_operation=AlterConfigOpType.SET)],
    )
    admin = AdminClient({"bootstrap.servers": setting.bootstrap})
    admin.incremental_alter_configs([config])[config].result(WAIT_S)
    values = script_large_batch(setting.name, setting.topic, monkeypatch)
    run = setting.tasks.start(setting.name)
    eventually(lambda: setting.offset() == 1999, "all records")
    setting.wait_for_markers()
    assert setting.read() == values
    run.stop()
    assert run.listener.error is None


def test_overrides_that_would_end_exactly_once_are_ignored(setting: Setting) -> None:
    setting.script.batches = [setting.records("a")]
    overrides = {"producer_override_transactional_id": "mine", "producer_override_enable_idempotence": "false"}
    setting.tasks.start(setting.name, overrides)
    eventually(lambda: setting.offset() == 0, "the transaction")
    # The id is the worker's: taking over the other one fences nobody.
    fence_producers({"bootstrap.servers": setting.bootstrap}, ["mine"], WAIT_S)
    setting.script.batches.append(setting.records("b", first=1))
    eventually(lambda: setting.offset() == 1, "another transaction")


class Heard:
    """Hears of an executor's tasks (:class:`worker.executor.ExecutorListener`)."""

    def __init__(self) -> None:
        self.states: list[tuple[int, State]] = []
        self.topics: set[str] = set()

    def on_connector_state(self, run: int, name: str, state: State, trace: str | None, version: str | None) -> None: ...

    def on_task_state(self, run: int, task: TaskId, state: State, trace: str | None, version: str | None) -> None:
        self.states.append((run, state))

    def on_reconfiguration_requested(self, run: int, name: str) -> None: ...

    def on_topics(self, run: int, task: TaskId, topics: Collection[str]) -> None:
        self.topics |= set(topics)

    def on_stall(self, run: int, instance: str | TaskId, stall: Stall | None) -> None: ...


def test_an_executor_runs_a_task_with_the_transactional_id_it_is_given(setting: Setting) -> None:
    heard = Heard()
    config = WorkerConfig.standalone(setting.tasks.worker_properties)
    executor = LocalExecutor(config, Plugins.discover(), setting.services, heard, SecretMask())
    executor.start()
    setting.script.batches = [setting.records("a")]
    connector = {"connector.class": f"{FAKES}:ScriptedSource", "script": setting.name, "name": setting.name}
    task = {"script": setting.name, "task.class": f"{FAKES}:ScriptedSourceTask"}
    spec = ConnectorSpec(setting.name, connector, connector)
    try:
        executor.start_task(9, TaskSpec(TaskId(setting.name, 0), spec, task, False, f"group-{setting.name}-0"))
        eventually(lambda: setting.offset() == 0, f"the transaction, but {heard.states}")
        assert setting.services.calls[0] == f"confirm 9 {setting.name}-0"
        eventually(lambda: heard.topics == {setting.topic}, "the topic")
        executor.stop_tasks([TaskId(setting.name, 0)]).result(WAIT_S)
        assert heard.states == [(9, State.RUNNING), (9, State.UNASSIGNED)]
    finally:
        executor.close(10)


def test_fencing_many_ids_and_one_that_nobody_has(broker: EmbeddedBroker, unique_name: Name) -> None:
    ids = [unique_name("id") for _ in range(3)]
    topic = unique_name("topic")
    owner = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": ids[0]})
    owner.init_transactions(WAIT_S)
    owner.begin_transaction()
    owner.produce(topic, "late")
    owner.flush(WAIT_S)
    fence_producers({"bootstrap.servers": broker.bootstrap}, ids, 30)
    with pytest.raises(KafkaException, match="fenced"):
        owner.commit_transaction(WAIT_S)
    assert read_topic(broker.bootstrap, topic) == []


def test_fencing_reports_that_no_broker_answers() -> None:
    with pytest.raises(ConnectError, match=r"fencing out producers with transactional id x.*127\.0\.0\.1:1"):
        fence_producers({"bootstrap.servers": "127.0.0.1:1"}, ["x"], 1)
