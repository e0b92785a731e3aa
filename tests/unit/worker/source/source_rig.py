"""A source task's runtime whose Kafka clients are fakes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, cast

from connect import SourceRecord, SourceTask
from connect.converters.simple_header import SimpleHeaderConverter
from connect.converters.string import StringConverter
from connect.errors import DataError
from connect.source import OwnedTopicSettings, TopicReader
from tests.unit.worker.kafka.fake_clients import FakeProducerClient
from worker.errors.config import DeadLetterTopic, ErrorSettings
from worker.errors.handler import DeadLetterQueue, ErrorHandler
from worker.errors.resend import RejectedRecords
from worker.kafka import record_producer
from worker.kafka.record_producer import RecordMetadata, RecordProducer
from worker.model import OffsetEntry, TaskId
from worker.observability.activity import ActivityTracker
from worker.observability.metrics.task_meter import TaskMeter
from worker.observability.tracing.task_trace import TaskTrace
from worker.source import at_least_once
from worker.source.owned_topics import OwnedTopics
from worker.source.runtime import SourceTaskRuntime
from worker.storage.offset_store import OffsetPair, OffsetStore
from worker.tasks.converters import Converters
from worker.tasks.transformation_chain import TransformationChain
from worker.tasks.worker_task import TaskControl

TASK_ID = TaskId("c", 0)
PRODUCER = {"bootstrap.servers": "nowhere:1"}


def no_topics(topic: str, settings: Mapping[str, str], position: int | None) -> TopicReader:
    raise AssertionError("the task reads a topic")


def no_owned_topics(topic: str, settings: OwnedTopicSettings) -> OwnedTopicSettings:
    raise AssertionError("the task opens a topic of its own")


def records(*offsets: int, topic: str = "t", partition: str = "p") -> list[SourceRecord]:
    """Records of one source partition, with their offset as the value."""
    shared = {"file": partition}
    return [SourceRecord(shared, {"n": offset}, topic, value=str(offset)) for offset in offsets]


class Picky(StringConverter):
    """Refuses the value ``bad``."""

    def from_connect_data(self, topic: str, schema: Any, value: Any, headers: Any = None) -> bytes | None:
        if value == "bad":
            raise DataError("refused")
        return super().from_connect_data(topic, schema, value, headers)

    def encode_batch(self, topic: str, schema: Any, values: Sequence[Any]) -> list[bytes | None]:
        return [self.from_connect_data(topic, schema, value) for value in values]


class FakeTask(SourceTask):
    """Records the calls of the worker."""

    wants_commit_record = False

    def __init__(self) -> None:
        self.commits: list[list[tuple[Any, Any]]] = []
        self.confirmed: list[tuple[Any, int | None]] = []
        self.offered: list[list[tuple[Any, Any]]] = []
        self.positions: list[tuple[Any, Any]] = []
        """What ``update_offsets`` returns."""

    def start(self, config: Mapping[str, str]) -> None: ...

    def poll(self) -> Sequence[SourceRecord] | None:
        return None

    def stop(self) -> None: ...

    def update_offsets(self, offsets: Sequence[tuple[Any, Any]]) -> Sequence[tuple[Any, Any]]:
        self.offered.append(list(offsets))
        return self.positions

    def commit(self, offsets: Sequence[tuple[Any, Any]] = ()) -> None:
        self.commits.append(list(offsets))

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        self.confirmed.append((record.value, None if metadata is None else metadata.offset))


class ConfirmingTask(FakeTask):
    wants_commit_record = True


class FakeHandle:
    """The worker task as its components see it."""

    id = TASK_ID

    def __init__(self, trace: TaskTrace | None = None) -> None:
        self.trace = trace
        self.control = TaskControl()
        self.cancelled = False
        self.activity = ActivityTracker()
        self.counted = 0
        self.meter = TaskMeter()
        self.topics: set[str] = set()

    def count(self, records: int, size_bytes: int) -> None:
        self.counted += records

    def report_topics(self, topics: Collection[str]) -> None:
        self.topics |= set(topics)


class FakeStore(OffsetStore):
    """Stores offsets in a list; fails with ``error`` if it is set."""

    def __init__(self) -> None:
        self.puts: list[list[OffsetPair]] = []
        self.error: Exception | None = None

    def get(self, connector: str, partition: Mapping[str, Any] | None) -> dict[str, Any] | None:
        raise AssertionError("nothing here reads offsets")

    def entries(self, connector: str) -> list[OffsetEntry]:
        raise AssertionError("nothing here reads offsets")

    def put(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        if self.error is not None:
            raise self.error
        self.puts.append(list(offsets))

    @property
    def stored(self) -> dict[str, int]:
        """The latest stored offset of each source partition."""
        found = {}
        for offsets in self.puts:
            for partition, offset in offsets:
                assert partition is not None
                assert offset is not None
                found[partition["file"]] = offset["n"]
        return found


class FakeQueue:
    """The producer and topic creator of a dead letter queue that acknowledges when the test says so."""

    topic = "dlq"
    max_record_bytes = 1_000_000
    unacknowledged = 0

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.headers: list[dict[str, bytes]] = []
        self.acknowledges = True

    def send(self, *dead_letter: Any) -> Future[None]:
        self.sent.append(dead_letter[1])
        self.headers.append(dict(dead_letter[2]))
        return Future()

    def flush(self, timeout_s: float) -> bool:
        return self.acknowledges

    def check(self) -> None: ...

    def ensure(self, topic: str, wait: Any) -> bool:
        return True


class Rig:
    """The components of one source task."""

    def __init__(
        self,
        monkeypatch: Any,
        *,
        tolerant: bool = False,
        confirms_each: bool = False,
        queue: FakeQueue | None = None,
        trace: TaskTrace | None = None,
        **java: str,
    ) -> None:
        monkeypatch.setattr(record_producer, "make_producer", FakeProducerClient)
        monkeypatch.setattr(at_least_once, "_NEW_TOPIC_TIMEOUT_S", 0.001)
        self.handle, self.store = FakeHandle(trace), FakeStore()
        stopping = self.handle.control.is_stopping
        self.producer = RecordProducer({**PRODUCER, **java}, stopping=stopping, confirms_each=confirms_each)
        self.client = cast(FakeProducerClient, self.producer.client)
        self.task = ConfirmingTask() if confirms_each else FakeTask()
        topic = None if queue is None else DeadLetterTopic(queue.topic, 1, True, "errors.deadletterqueue.source.")
        settings = ErrorSettings(tolerant=tolerant, dead_letters=topic)
        dead_letters = None if queue is None else DeadLetterQueue(queue, queue, True)  # type: ignore[arg-type]  # a fake
        self.errors = ErrorHandler(TASK_ID, settings, queue=dead_letters)
        assert self.errors.open(lambda seconds: self.handle.control.stopping)
        strings, picky = StringConverter(), Picky()
        strings.configure({}, True)
        picky.configure({}, False)
        self.runtime = SourceTaskRuntime(
            task=self.task,
            config={},
            converters=Converters(strings, picky, SimpleHeaderConverter()),
            chain=TransformationChain(),
            producer=self.producer,
            topic_creator=None,
            errors=self.errors,
            rejected=RejectedRecords(self.task, self.producer, self.errors),
            open_topic=no_topics,
            owned_topics=OwnedTopics(no_owned_topics),
        )
