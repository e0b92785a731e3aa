"""The components of one source task, and its flush intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connect.source import SourceTask, TopicReader
from worker.errors.handler import ErrorHandler
from worker.errors.resend import RejectedRecords
from worker.kafka.topic_creator import TopicCreator
from worker.kafka.transactions import Transactions
from worker.source.delivery import SourceDelivery
from worker.source.owned_topics import OwnedTopics
from worker.source.producer import SourceProducer
from worker.source.transaction_boundary import BoundarySettings
from worker.tasks.converters import Converters
from worker.tasks.transformation_chain import TransformationChain
from worker.tasks.worker_task import TaskHandle


@dataclass(frozen=True, slots=True)
class TransactionRuntime:
    """The additional components of a source task with exactly-once."""

    transactions: Transactions
    boundary: BoundarySettings


OpenTopic = Callable[[str, Mapping[str, str], int | None], TopicReader]
"""See :meth:`connect.source.SourceTaskContext.open_topic`."""


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """What a task's producer may do."""

    idempotent: bool = True
    large_batches: bool = True
    """Whether ``batch.size`` may be the connector's (:attr:`connect.connector.SourceConnector.producer_defaults`)."""


@dataclass(frozen=True, slots=True)
class SourceTaskRuntime:
    """The components of one source task. Created on the task's thread, which loads and configures its plugins."""

    task: SourceTask
    config: Mapping[str, str]
    converters: Converters
    chain: TransformationChain
    producer: SourceProducer
    topic_creator: TopicCreator | None
    """None leaves missing topics to the broker."""
    errors: ErrorHandler
    rejected: RejectedRecords | None
    """None if the producer accepts every record."""
    open_topic: OpenTopic
    owned_topics: OwnedTopics
    transaction: TransactionRuntime | None = None
    """Set for a task that writes records and offsets in transactions."""
    lingers_for_backlog: bool = False
    """Whether the producer's ``linger.ms`` holds for a task with a backlog only."""
    create_delivery: Callable[[TaskHandle, SourceTaskRuntime], SourceDelivery] | None = None
    """None delivers to Kafka: in transactions if there is :attr:`transaction`, else at least once."""


@dataclass(frozen=True, slots=True)
class FlushTiming:
    """``offset.flush.interval.ms`` and ``offset.flush.timeout.ms``, in seconds."""

    interval_s: float
    timeout_s: float
    last_timeout_s: float
    """For the final flush, which must fit into ``task.shutdown.graceful.timeout.ms``."""
