"""Internal topics on a real broker: creation, checks, reads, writes by several workers, and fencing."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from connect.errors import ConfigError, FencedError, IllegalStateError, UnreachableError
from sluice.embedded.broker import EmbeddedBroker
from tests.support.waiting import WAIT_S, eventually
from worker.config.worker_config import WorkerConfig
from worker.kafka.internal_topics import InternalTopic
from worker.kafka.log_writer import Written
from worker.kafka.topic_log import LogRecord, TopicLog, TopicLogSettings
from worker.model import OffsetEntry, State, Status, TargetState, TaskId
from worker.observability.verifications import VerificationResults
from worker.storage import topic_logs
from worker.storage.config_store import ConfigStore
from worker.storage.documents import DocumentTopic
from worker.storage.kafka_offset_store import OffsetTopic
from worker.storage.record_codec import DocumentKind, RestartRequest, SessionKey
from worker.storage.status_store import StatusStore

Named = Callable[[str], str]
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture
def worker(broker: EmbeddedBroker, unique_name: Named) -> Callable[..., WorkerConfig]:
    """Creates worker configs of one cluster with unique internal topics."""
    group = unique_name("group")

    def make(**settings: str) -> WorkerConfig:
        return WorkerConfig.for_cluster(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "key.converter": JSON,
                "value.converter": JSON,
                **{f"{what}.storage.topic": f"{group}-{what}" for what in ("config", "offset", "status")},
                **{f"{what}.storage.replication.factor": "1" for what in ("config", "offset", "status")},
                **{key.replace("_", "."): value for key, value in settings.items()},
            }
        )

    return make


class RecordingListener:
    """A listener of the config store that records its events."""

    def __init__(self) -> None:
        self.events: queue.Queue[tuple[Any, ...]] = queue.Queue()

    def next(self) -> tuple[Any, ...]:
        return self.events.get(timeout=WAIT_S)

    def on_connector_config(self, name: str) -> None:
        self.events.put(("config", name))

    def on_connector_removed(self, name: str) -> None:
        self.events.put(("removed", name))

    def on_task_configs(self, name: str, tasks: Sequence[TaskId]) -> None:
        self.events.put(("tasks", name, [task.task for task in tasks]))

    def on_target_state(self, name: str) -> None:
        self.events.put(("target", name))

    def on_session_key(self, key: SessionKey) -> None:
        self.events.put(("key", key))

    def on_restart_request(self, request: RestartRequest) -> None:
        self.events.put(("restart", request))

    def on_logger_level(self, namespace: str, level: str) -> None:
        self.events.put(("logger", namespace, level))


class Closing:
    """Closes everything that a test opened, in parallel."""

    def __init__(self) -> None:
        self._opened: list[Any] = []

    def __call__(self, opened: Any) -> Any:
        self._opened.append(opened)
        return opened

    def close(self) -> None:
        for opened in self._opened:
            opened.ask_to_close()
        for opened in self._opened:
            opened.close()


@pytest.fixture
def closing() -> Iterator[Closing]:
    one = Closing()
    yield one
    one.close()


StartStore = Callable[[WorkerConfig], tuple[ConfigStore, RecordingListener]]


@pytest.fixture
def config_store(closing: Closing) -> StartStore:
    def start(config: WorkerConfig) -> tuple[ConfigStore, RecordingListener]:
        listener = RecordingListener()
        store: ConfigStore = closing(ConfigStore(topic_logs.config_log(config), listener))
        store.start(WAIT_S)
        return store, listener

    return start


def create_topic(bootstrap: str, name: str, partitions: int, **configs: str) -> None:
    new = NewTopic(name, partitions, 1, config={key.replace("_", "."): value for key, value in configs.items()})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([new])[name].result(WAIT_S)


def test_two_workers_see_each_others_writes(worker: Callable[..., WorkerConfig], config_store: StartStore) -> None:
    config = worker()
    one, first_listener = config_store(config)
    one.put_connector("c", {"name": "c", "a": "1"}, TargetState.PAUSED)
    assert one.snapshot().config("c") == {"name": "c", "a": "1"}
    assert one.snapshot().target_state("c") is TargetState.PAUSED
    assert one.snapshot().offset == 2

    two, second_listener = config_store(config)
    assert two.snapshot().connectors() == ["c"]
    two.put_task_configs("c", [{"n": "0"}, {"n": "1"}])
    two.put_target_state("c", TargetState.STARTED)
    two.put_restart_request(RestartRequest("c", True, False))
    two.put_logger_level("x.y", "DEBUG")
    key = SessionKey(b"0" * 32, "HmacSHA256", 17)
    two.put_session_key(key)
    two.put_task_configs("c", [])
    two.remove_connector("c")

    events = [
        ("tasks", "c", [0, 1]),
        ("target", "c"),
        ("restart", RestartRequest("c", True, False)),
        ("logger", "x.y", "DEBUG"),
        ("key", key),
        ("tasks", "c", []),
        ("removed", "c"),
    ]
    assert [first_listener.next() for _ in range(8)] == [("config", "c"), *events]
    assert [second_listener.next() for _ in events] == events
    one.refresh(WAIT_S)
    assert one.snapshot() == two.snapshot()
    assert one.snapshot().session_key == key

    # A later store does not report past changes.
    three, third_listener = config_store(config)
    assert three.snapshot() == two.snapshot()
    assert third_listener.events.empty()


def test_transactional_leader_is_fenced_by_the_next_one(
    worker: Callable[..., WorkerConfig], config_store: StartStore
) -> None:  # fmt: skip
    config = worker(exactly_once_source_support="enabled")
    old, _ = config_store(config)
    new, listener = config_store(config)
    with pytest.raises(FencedError, match="without claiming"):
        old.put_connector("c", {"a": "1"})
    old.claim_write_privileges()
    old.put_connector("c", {"a": "1"})
    old.put_task_configs("c", [{"n": "0"}])
    # Offsets as in the recording: each transaction is followed by its marker.
    assert old.snapshot().offset == 5
    new.refresh(WAIT_S)
    assert new.snapshot().tasks("c") == [TaskId("c", 0)]

    new.claim_write_privileges()
    with pytest.raises(FencedError, match="safely retried"):
        old.put_connector("c", {"a": "2"})
    old.put_target_state("c", TargetState.PAUSED)  # allowed for any worker
    new.put_task_count_record("c", 1)
    assert new.snapshot().config("c") == {"a": "1"}
    assert new.snapshot().task_count_record("c") == 1
    assert [listener.next() for _ in range(3)] == [("config", "c"), ("tasks", "c", [0]), ("target", "c")]

    # The fenced leader can claim write privileges again.
    old.claim_write_privileges()
    old.put_connector("c", {"a": "3"})
    new.refresh(WAIT_S)
    assert new.snapshot().config("c") == {"a": "3"}


def test_uncommitted_records_are_neither_read_nor_awaited(
    broker: EmbeddedBroker, worker: Callable[..., WorkerConfig], config_store: StartStore
) -> None:
    config = worker(exactly_once_source_support="enabled")
    store, _ = config_store(config)
    settings = topic_logs.config_log(config)
    assert settings.leader is not None
    dead_leader = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": settings.leader["transactional.id"]})
    dead_leader.init_transactions(WAIT_S)
    dead_leader.begin_transaction()
    dead_leader.produce(settings.topic.name, b'{"properties":{}}', b"connector-ghost")
    dead_leader.flush(WAIT_S)
    store.refresh(WAIT_S)
    assert store.snapshot().connectors() == []
    store.claim_write_privileges()  # aborts the open transaction of the dead leader
    store.put_connector("c", {})
    assert store.snapshot().connectors() == ["c"]


def test_config_topic_with_deletion_is_rejected(
    broker: EmbeddedBroker, worker: Callable[..., WorkerConfig], config_store: StartStore
) -> None:
    config = worker()
    name = topic_logs.config_log(config).topic.name
    create_topic(broker.bootstrap, name, 1, cleanup_policy="compact,delete")
    with pytest.raises(ConfigError, match=r"found the topic currently has 'cleanup.policy=compact,delete'") as caught:
        config_store(config)
    assert caught.value.key == "config.storage.topic"
    assert f"sluice topic alter {name} --config cleanup.policy=compact" in caught.value.message


def test_config_topic_with_two_partitions_is_rejected(
    broker: EmbeddedBroker, worker: Callable[..., WorkerConfig], config_store: StartStore
) -> None:
    config = worker()
    create_topic(broker.bootstrap, topic_logs.config_log(config).topic.name, 2, cleanup_policy="compact")
    with pytest.raises(ConfigError, match=r"required to have a single partition .* but found 2 partitions"):
        config_store(config)


def test_more_replicas_than_brokers_are_reported_with_the_key(
    worker: Callable[..., WorkerConfig], config_store: StartStore
) -> None:  # fmt: skip
    with pytest.raises(ConfigError, match=r"Set config.storage.replication.factor to the number of brokers") as caught:
        config_store(worker(config_storage_replication_factor="3"))
    assert caught.value.key == "config.storage.replication.factor"


def test_topic_is_created_with_the_worker_settings(
    broker: EmbeddedBroker, worker: Callable[..., WorkerConfig], closing: Closing
) -> None:
    config = worker(status_storage_partitions="3", status_storage_min_insync_replicas="1", status_storage_replication_factor="-1")
    log = closing(TopicLog(topic_logs.status_log(config), lambda _: None))
    log.start(WAIT_S)
    assert log.partitions == 3
    found = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(log.topic, timeout=WAIT_S).topics[log.topic]
    assert len(found.partitions) == 3


def test_states_are_shared_and_late_states_are_ignored(worker: Callable[..., WorkerConfig], closing: Closing) -> None:
    config = worker()
    one, two = (closing(StatusStore(topic_logs.status_log(config), name)) for name in ("a:1", "b:1"))
    one.start(WAIT_S)
    two.start(WAIT_S)
    task = TaskId("c", 0)
    one.put("c", Status(State.RUNNING, "a:1", None, 2, "1.0"))
    one.put(task, Status(State.RUNNING, "a:1", None, 2, "1.0"))
    eventually(lambda: two.get(task) == Status(State.RUNNING, "a:1", None, 2, "1.0"), "the other worker's store has the state")
    two.put(task, Status(State.RUNNING, "b:1", None, 3, None))
    eventually(lambda: one.get(task) == Status(State.RUNNING, "b:1", None, 3, None), "the task is known to have moved")
    one.put_safe(task, Status(State.FAILED, "a:1", "too late", 2))
    one.put(task, Status(State.UNASSIGNED, "a:1", None, 2))  # from a worker that does not know of the move yet
    one.add_topic("c", 0, "orders")
    one.add_topic("c", 0, "orders")
    eventually(lambda: two.topics("c") == {"orders"}, "the topic is known")
    for store in (one, two):
        store.refresh(WAIT_S)
        assert store.get_all("c") == {0: Status(State.RUNNING, "b:1", None, 3, None)}
        assert store.connectors() == {"c"}
    two.reset_topics("c")
    two.delete(task)
    two.delete("c")
    eventually(lambda: not one.connectors() and not one.topics("c") and one.get(task) is None, "all entries are deleted")
    # The other worker records a topic again after a reset.
    one.add_topic("c", 0, "orders")
    eventually(lambda: one.topics("c") == {"orders"}, "the topic is known again")


def test_results_of_verifications_are_shared_and_outlive_workers(worker: Callable[..., WorkerConfig], closing: Closing) -> None:
    config = worker()
    one, two = (closing(StatusStore(topic_logs.status_log(config), name)) for name in ("a:1", "b:1"))
    one.start(WAIT_S)
    two.start(WAIT_S)
    result = {"equal": False, "rows": 10, "differences": 2, "unsettled": 0, "seconds": 1.5, "tables": [], "sink": "c"}

    def results(store: StatusStore) -> VerificationResults:
        return VerificationResults(DocumentTopic(store, DocumentKind.VERIFICATION))

    stored = results(one).store("c", result)
    assert results(one).get("c") == stored  # what was returned is durable
    eventually(lambda: results(two).all() == {"c": stored}, "the other worker has the result")
    assert stored.document == result
    newest = results(two).store("c", {**result, "equal": True})
    later = closing(StatusStore(topic_logs.status_log(config), "c:1"))
    later.start(WAIT_S)
    assert results(later).all() == {"c": newest}
    assert later.connectors() == frozenset()
    later.await_read([later.put_document(DocumentKind.VERIFICATION, "c", None)], WAIT_S)
    eventually(lambda: results(two).get("c") is None, "the result of the deleted connector is gone")


def test_reset_topics_are_no_longer_returned(worker: Callable[..., WorkerConfig], closing: Closing) -> None:
    store = closing(StatusStore(topic_logs.status_log(worker()), "a:1"))
    store.start(WAIT_S)
    for _ in range(10):
        for topic in ("orders", "payments"):
            store.add_topic("c", 0, topic)
        store.await_read(store.reset_topics("c"), WAIT_S)
        assert store.topics("c") == frozenset()
    assert store.reset_topics("c") == []


def test_offset_records_reuse_the_stored_key_bytes(worker: Callable[..., WorkerConfig], closing: Closing) -> None:
    config = worker(offset_storage_partitions="5")
    one, two = (closing(OffsetTopic(topic_logs.offset_log(config))) for _ in range(2))
    records: list[LogRecord] = []
    raw = closing(TopicLog(topic_logs.offset_log(config), records.append))
    one.start(WAIT_S)
    raw.start(WAIT_S)
    java = b'["c",{"table":"t","db":"d"}]'
    raw.await_read(raw.send_all([(java, b'{"at":1}')], WAIT_S), WAIT_S)
    one.refresh(WAIT_S)
    partition = {"db": "d", "table": "t"}
    assert one.get("c", partition) == {"at": 1}
    one.put("c", [(partition, {"at": 2}), ({"db": "e"}, {"at": 3})])
    assert one.get("c", partition) == {"at": 2}
    two.start(WAIT_S)
    assert two.entries("c") == one.entries("c")
    assert [record.key for record in two.records("c", [(partition, None)])] == [java]
    two.put("c", [(partition, None)])
    one.refresh(WAIT_S)
    assert one.entries("c") == [OffsetEntry({"db": "e"}, {"at": 3})]
    raw.read_to_end(WAIT_S)
    assert [record.value for record in records if record.key == java] == [b'{"at":1}', b'{"at":2}', None]


def test_refresh_waits_for_offsets_behind_an_open_transaction_of_another_task(
    broker: EmbeddedBroker, worker: Callable[..., WorkerConfig], closing: Closing
) -> None:
    config = worker(exactly_once_source_support="enabled", offset_storage_partitions="1")
    store = closing(OffsetTopic(topic_logs.offset_log(config)))
    store.start(WAIT_S)
    other, own = (Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"{store.topic}-{n}"}) for n in "ab")
    for task, connector, at in ((other, "other", 1), (own, "own", 2)):
        task.init_transactions(WAIT_S)
        task.begin_transaction()
        for record in store.records(connector, [({}, {"at": at})]):
            task.produce(record.topic, record.value, record.key, record.partition)
        task.flush(WAIT_S)
    own.commit_transaction(WAIT_S)
    # Returning no offset would make the next task read committed records from its source again.
    with pytest.raises(UnreachableError, match=r"no transaction in it stays open: .* kafka-transactions\.sh"):
        store.refresh(1)
    other.abort_transaction(WAIT_S)
    store.refresh(WAIT_S)
    assert (store.get("own", {}), store.get("other", {})) == ({"at": 2}, None)


def test_transactional_offsets_are_in_the_same_partitions_as_plain_ones(
    broker: EmbeddedBroker, worker: Callable[..., WorkerConfig], closing: Closing
) -> None:
    config = worker(exactly_once_source_support="enabled")
    store = closing(OffsetTopic(topic_logs.offset_log(config)))
    store.start(WAIT_S)
    offsets = [({"n": number}, {"at": number}) for number in range(8)]
    task = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"{store.topic}-c-0"})
    task.init_transactions(WAIT_S)
    written: list[Written] = []

    def note(_: object, message: Message) -> None:
        written.append(Written(message.partition(), message.offset()))

    for end in (task.abort_transaction, task.commit_transaction):
        written.clear()
        task.begin_transaction()
        for record in store.records("c", offsets):
            task.produce(record.topic, record.value, record.key, record.partition, on_delivery=note)
        task.flush(WAIT_S)
        assert store.entries("c") == []
        end(WAIT_S)
    store.await_read(written, WAIT_S)
    assert len(store.entries("c")) == 8
    store.put("c", [({"n": 0}, {"at": 100})])
    assert store.get("c", {"n": 0}) == {"at": 100}
    assert len(store.entries("c")) == 8


def log_settings(bootstrap: str, name: str, partitions: int = 1) -> TopicLogSettings:
    client = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": "500"}
    return TopicLogSettings(InternalTopic(name, partitions, 1), {**client, "group.id": "g"}, client, client)


def test_failing_callback_loses_only_its_record(broker: EmbeddedBroker, unique_name: Named, closing: Closing) -> None:
    taken: list[bytes | None] = []

    def take(record: LogRecord) -> None:
        if record.value == b"bad":
            raise ValueError("cannot take this")
        taken.append(record.value)

    log = closing(TopicLog(log_settings(broker.bootstrap, unique_name("log")), take))
    log.start(WAIT_S)
    written = log.send_all([(b"a", b"1"), (b"b", b"bad"), (b"c", None)], WAIT_S)
    log.await_read(written, WAIT_S)
    assert taken == [b"1", None]


@pytest.mark.harms_broker
@pytest.mark.long
def test_log_continues_after_a_restart_of_the_broker(broker: EmbeddedBroker, unique_name: Named, closing: Closing) -> None:
    taken: list[LogRecord] = []
    log = closing(TopicLog(log_settings(broker.bootstrap, unique_name("log"), 3), taken.append))
    log.start(WAIT_S)
    log.await_read(log.send_all([(b"%d" % n, b"before") for n in range(6)], WAIT_S), WAIT_S)
    broker.kill()
    with pytest.raises(UnreachableError, match=r"could not be read to its end within 0.3 s"):
        log.read_to_end(0.3)
    with pytest.raises(UnreachableError, match=r"not acknowledged within 0.3 s"):
        log.send_all([(b"k", b"late")], 0.3)
    broker.start()
    log.await_read(log.send_all([(b"k", b"after")], WAIT_S), WAIT_S)
    log.read_to_end(WAIT_S)
    assert [(record.value, record.live) for record in taken if record.key == b"k"] == [(b"late", True), (b"after", True)]
    assert len(taken) == 8


def test_log_without_a_broker_waits_and_can_be_closed(unique_name: Named) -> None:
    log = TopicLog(log_settings("127.0.0.1:9", unique_name("log")), lambda _: None)
    raised: list[BaseException] = []

    def start() -> None:
        try:
            log.start()
        except BaseException as e:
            raised.append(e)

    thread = threading.Thread(target=start)
    thread.start()
    log.close()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert isinstance(raised[0], IllegalStateError)
    assert "closed" in str(raised[0])  # before it was read, or before it started


def test_records_are_in_the_partitions_of_the_java_partitioner(
    broker: EmbeddedBroker, unique_name: Named, closing: Closing
) -> None:
    from worker.kafka.partitioner import partition_of

    taken: list[LogRecord] = []
    log = closing(TopicLog(log_settings(broker.bootstrap, unique_name("log"), 25), taken.append))
    log.start(WAIT_S)
    written = log.send_all([(f'["c",{{"id":{n}}}]'.encode(), b"{}") for n in range(60)], WAIT_S)
    log.await_read(written, WAIT_S)
    assert len(taken) == 60
    assert all(record.partition == partition_of(record.key or b"", 25) for record in taken)
    reread: list[LogRecord] = []
    other = closing(TopicLog(log_settings(broker.bootstrap, log.topic, 25), reread.append))
    other.start(WAIT_S)
    assert {(record.key, record.live) for record in reread} == {(record.key, False) for record in taken}
