"""What a sink's loop does with messages that were collected while partitions went."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

from confluent_kafka import OFFSET_STORED

from connect import SinkRecord, TopicPartition
from connect.converters.simple_header import SimpleHeaderConverter
from connect.converters.string import StringConverter
from connect.sink import SinkTask
from tests.unit.worker.sink.test_batch_conversion import Message
from worker.errors.config import ErrorSettings
from worker.errors.handler import ErrorHandler
from worker.kafka.sink_consumer import SinkConsumer
from worker.model import TaskId
from worker.observability.activity import ActivityTracker
from worker.observability.metrics.task_meter import TaskMeter
from worker.sink.loop import SinkLoop
from worker.sink.range_reader import KafkaRangeReader
from worker.sink.rebalance import RebalanceCallbacks
from worker.sink.runtime import SinkTaskHandle, SinkTaskRuntime
from worker.sink.topic_discovery import Subscription
from worker.tasks.converters import Converters
from worker.tasks.transformation_chain import TransformationChain
from worker.tasks.worker_task import TaskControl

STAYS, GOES = TopicPartition("t", 0), TopicPartition("t", 1)


class Located(Message):
    """A message of one of several partitions."""

    def __init__(self, place: TopicPartition, offset: int) -> None:
        super().__init__(offset, f"{place.partition}-{offset}".encode())
        self._place = place

    def topic(self) -> str:
        return self._place.topic

    def partition(self) -> int:
        return self._place.partition


class Task(SinkTask):
    def __init__(self) -> None:
        self.values: list[Any] = []

    def start(self, config: Mapping[str, str]) -> None:
        """Nothing to begin."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        self.values += [record.value for record in records]


class Host:
    id = TaskId("sink", 0)
    cancelled = False

    trace = None

    def __init__(self) -> None:
        self.control = TaskControl()
        self.activity = ActivityTracker()
        self.meter = TaskMeter()

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class Client:
    """A consumer whose looks for messages are scripted; after the last one its host is to stop."""

    def __init__(self, host: Host, *looks: Callable[[], list[Located]]) -> None:
        self._host = host
        self._looks = list(looks)
        self.missing: set[str] = set()
        self.committed_offsets: dict[TopicPartition, int] = {}

    def take(self, most: int, timeout_s: float) -> list[Located]:
        found = self._looks.pop(0)()
        if not self._looks:
            self._host.control.stop()
        return found

    def committed(self, partitions: Collection[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        return {}

    def start_offsets(self, partitions: Collection[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        return {}

    def unknown_start(self) -> int:
        return int(OFFSET_STORED)

    def commit(self, offsets: Mapping[TopicPartition, int], *, wait: bool) -> None:
        self.committed_offsets.update(offsets)

    def end_offset(self, place: TopicPartition, *, cached: bool) -> None:
        """Not known."""

    def subscribe(self, topics: Collection[str]) -> None:
        """To all there is."""


def test_messages_of_a_partition_revoked_during_the_poll_are_ignored() -> None:
    host, task = Host(), Task()
    strings = StringConverter()
    strings.configure({}, False)

    def assign() -> list[Located]:
        callbacks.on_assigned([STAYS, GOES])
        return []

    def revoke() -> list[Located]:
        # One was there already when the client was told of the rebalance, the other came after it.
        callbacks.on_revoked([GOES])
        return [Located(STAYS, 3), Located(GOES, 700)]

    client = Client(host, assign, revoke)
    runtime = SinkTaskRuntime(
        task=task,
        config={},
        converters=Converters(strings, strings, SimpleHeaderConverter()),
        chain=TransformationChain([]),
        consumer=cast(SinkConsumer, client),
        subscription=Subscription(frozenset({"t"}), None, 60.0),
        max_records=500,
        errors=ErrorHandler(host.id, ErrorSettings()),
        range_reader=KafkaRangeReader(host.id, {}, ("", {}), ("", {}), ("", {}), {}),
    )
    callbacks = RebalanceCallbacks(lambda: False)
    loop = SinkLoop(cast(SinkTaskHandle, host), runtime, callbacks, 60.0, 5.0)
    loop.run()
    loop.close()
    assert task.values == ["0-3"]
    assert client.committed_offsets == {STAYS: 4}
