"""The components of one sink task, and what its parts see of the worker task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from connect.sink import SinkTask
from worker.errors.handler import ErrorHandler
from worker.kafka.sink_consumer import SinkConsumer
from worker.sink.range_reader import KafkaRangeReader
from worker.sink.topic_discovery import Subscription
from worker.tasks.converters import Converters
from worker.tasks.transformation_chain import TransformationChain
from worker.tasks.worker_task import TaskHandle


@dataclass(frozen=True, slots=True)
class SinkTaskRuntime:
    """The components of one sink task. Created on the task's thread, which loads and configures its plugins."""

    task: SinkTask
    config: Mapping[str, str]
    converters: Converters
    chain: TransformationChain
    consumer: SinkConsumer
    subscription: Subscription
    max_records: int
    """The maximum number of records per ``put``: ``max.poll.records``."""
    errors: ErrorHandler
    range_reader: KafkaRangeReader


class SinkTaskHandle(TaskHandle, Protocol):
    """What the parts of a sink task see of it."""

    def report_lag(self, lag: dict[str, int], *, is_paused: bool) -> None:
        """Reports the undelivered records by partition, and whether the sink itself has paused a partition."""

    def on_paused(self) -> None: ...

    def on_resumed(self) -> None: ...
