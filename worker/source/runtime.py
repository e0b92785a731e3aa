"""What a source task works with, and when it stores how far it came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect.source import SourceTask
from worker.errors.handler import ErrorHandler
from worker.errors.resend import RefusedRecords
from worker.kafka.record_producer import RecordProducer
from worker.kafka.topic_creator import TopicCreator
from worker.kafka.transactions import Transactions
from worker.source.transaction_boundary import BoundarySettings
from worker.tasks.converters import Converters
from worker.tasks.transformation_chain import TransformChain


@dataclass(frozen=True, slots=True)
class Exactly:
    """What a source task with exactly-once has besides."""

    transactions: Transactions
    boundary: BoundarySettings


@dataclass(frozen=True, slots=True)
class SourceParts:
    """What a source task works with. Made on the task's own thread, for plugins are loaded and configured in it."""

    task: SourceTask
    config: Mapping[str, str]
    converters: Converters
    chain: TransformChain
    producer: RecordProducer
    topics: TopicCreator | None
    """None leaves missing topics to the broker."""
    errors: ErrorHandler
    refused: RefusedRecords
    exactly: Exactly | None = None
    """Given for a task that writes records and offsets in transactions."""


@dataclass(frozen=True, slots=True)
class FlushTiming:
    """``offset.flush.interval.ms`` and ``offset.flush.timeout.ms``, in seconds."""

    interval_s: float
    timeout_s: float
    last_timeout_s: float
    """For the flush at the end: it must fit into the time that a stop is given."""
