"""A sink loop whose Kafka client is a fake."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, cast

from connect import RawBatch, SinkRecord, TopicPartition
from connect.converters.simple_header import SimpleHeaderConverter
from connect.converters.string import StringConverter
from connect.sink import SinkTask
from tests.unit.worker.kafka.fake_clients import FakeConsumerClient
from worker.errors.config import DeadLetterTopic, ErrorSettings
from worker.errors.handler import DeadLetterQueue, ErrorHandler
from worker.kafka import sink_consumer
from worker.kafka.sink_consumer import SinkConsumer
from worker.model import TaskId
from worker.observability.activity import ActivityTracker
from worker.observability.metrics.task_meter import TaskMeter
from worker.observability.tracing.task_trace import TaskTrace
from worker.sink.loop import SinkLoop
from worker.sink.range_reader import KafkaRangeReader
from worker.sink.rebalance import RebalanceCallbacks
from worker.sink.runtime import SinkTaskRuntime
from worker.sink.topic_discovery import Subscription
from worker.tasks.converters import Converters
from worker.tasks.transformation_chain import TransformationChain
from worker.tasks.worker_task import TaskControl

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
TASK_ID = TaskId("sink", 0)
CONSUMER = {"bootstrap.servers": "nowhere:1", "group.id": "connect-sink", "auto.offset.reset": "earliest"}


class FakeTask(SinkTask):
    """Records the calls of the worker in ``events``; fails as the test says."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.put_errors: list[Exception | None] = []
        """Errors that ``put`` raises, call by call."""
        self.returned: dict[TopicPartition, int] | Exception | None = None
        """The result or error of ``pre_commit``; with None it returns its argument."""
        self.on_open: Callable[[], None] = lambda: None
        self.explanation: Exception | None = None
        """What ``explain_missing_offset`` raises."""

    def start(self, config: Mapping[str, str]) -> None: ...

    def put(self, records: Sequence[SinkRecord]) -> None:
        self.events.append(("put", *[f"{r.original_partition}-{r.offset}" for r in records]))
        if self.put_errors and (error := self.put_errors.pop(0)) is not None:
            raise error

    def put_raw(self, batches: Sequence[RawBatch]) -> None:
        self.events.append(("put_raw", *[f"{b.partition}-{offset}" for b in batches for offset in b.offsets]))

    def pre_commit(self, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        self.events.append(("pre_commit", dict(offsets)))
        if isinstance(self.returned, Exception):
            raise self.returned
        return offsets if self.returned is None else self.returned

    def open(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("open", *sorted(p.partition for p in partitions)))
        self.on_open()

    def explain_missing_offset(self, partition: TopicPartition, offset: int) -> None:
        self.events.append(("missing", partition.partition, offset))
        if self.explanation is not None:
            raise self.explanation

    def close_partitions(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> None:
        self.events.append(("lost" if lost else "close", *sorted(p.partition for p in partitions)))


class FakeHandle:
    """The worker task as its components see it."""

    id = TASK_ID

    def __init__(self, trace: TaskTrace | None = None) -> None:
        self.trace = trace
        self.control = TaskControl()
        self.cancelled = False
        self.activity = ActivityTracker()
        self.events: list[str] = []
        self.meter = TaskMeter()
        self.topics: set[str] = set()

    def count(self, records: int, size_bytes: int) -> None: ...

    def report_topics(self, topics: Collection[str]) -> None:
        self.topics |= set(topics)

    def report_lag(self, lag: dict[str, int], *, is_paused: bool) -> None: ...

    def on_paused(self) -> None:
        self.events.append("paused")

    def on_resumed(self) -> None:
        self.events.append("resumed")


class FakeQueue:
    """The producer and topic creator of a dead letter queue that acknowledges when the test says so."""

    topic = "dlq"
    max_record_bytes = 1_000_000
    unacknowledged = 0

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.acknowledges = True

    def send(self, *dead_letter: Any) -> Future[None]:
        self.sent.append(dead_letter[1])
        return Future()

    def flush(self, timeout_s: float) -> bool:
        return self.acknowledges

    def check(self) -> None: ...

    def ensure(self, topic: str, wait: Any) -> bool:
        return True


class Rig:
    """One sink task's loop, which runs one iteration at a time. The task and the client share one list of events."""

    def __init__(
        self,
        monkeypatch: Any,
        *,
        tolerant: bool = False,
        queue: FakeQueue | None = None,
        interval_s: float = 60,
        trace: TaskTrace | None = None,
        java: Mapping[str, str] = CONSUMER,
        allows_resets: bool = True,
    ) -> None:
        monkeypatch.setattr(sink_consumer, "make_consumer", FakeConsumerClient)
        self.handle, self.task = FakeHandle(trace), FakeTask()
        self.callbacks = RebalanceCallbacks(lambda: self.handle.cancelled)
        of_task = SinkConsumer(java, self.callbacks, allows_resets=allows_resets)
        self.client = cast(FakeConsumerClient, of_task._consumer)
        self.events = self.client.events = self.task.events
        topic = None if queue is None else DeadLetterTopic(queue.topic, 1, True, "errors.deadletterqueue.")
        dead_letters = None if queue is None else DeadLetterQueue(queue, queue, True)  # type: ignore[arg-type]  # a fake
        errors = ErrorHandler(TASK_ID, ErrorSettings(tolerant=tolerant, dead_letters=topic), queue=dead_letters)
        assert errors.open(lambda seconds: self.handle.control.stopping)
        strings = StringConverter()
        strings.configure({}, False)
        runtime = SinkTaskRuntime(
            task=self.task,
            config={},
            converters=Converters(strings, strings, SimpleHeaderConverter()),
            chain=TransformationChain(),
            consumer=of_task,
            subscription=Subscription(frozenset({"t"}), None, 60),
            max_records=500,
            errors=errors,
            range_reader=KafkaRangeReader(TASK_ID, {}, ("", {}), ("", {}), ("", {}), {}),
        )
        self.loop = SinkLoop(self.handle, runtime, self.callbacks, interval_s, 0.01)
        self.loop._discovery.start()
        self.errors = errors
        self.events.clear()

    def assign(self, *partitions: TopicPartition) -> None:
        self.client.assign_partitions(*partitions)
        self.callbacks.raise_error()

    def iterate(self, *messages: Any) -> None:
        """Runs the loop once, with these messages."""
        self.client.messages.append(list(messages))
        self.loop._apply_pause_request()
        self.loop.context.timeout(0)  # do not wait for records
        self.loop._iterate()

    def commit(self) -> None:
        """Runs the loop once, with a requested commit and without records."""
        self.loop.context.request_commit()
        self.iterate()
