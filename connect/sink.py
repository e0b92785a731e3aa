"""Sink tasks: deliver records to a system. Source of the contract: KIP-26, KIP-610, Kafka Connect's API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

from connect.converters.api import Converter
from connect.errors import IllegalStateError
from connect.metrics import Metric
from connect.pending_work import PendingWork
from connect.record import NO_TIMESTAMP_TYPE, RawBatch, SinkRecord, TopicPartition

Offsets = dict[TopicPartition, int]
"""For each partition, the offset of the next record to read: the last delivered one + 1."""


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """Tells a topic from another one of the same name: in another cluster, or created after this one was deleted."""

    cluster_id: str
    topic_id: str
    """Kafka's topic UUID as Kafka's tools print it; ``-`` when the broker has none."""
    partitions: int = field(default=1, compare=False)
    """The number of the topic's partitions when the broker was asked."""


class RawRecord(NamedTuple):
    """One undecoded record; :class:`connect.record.RawBatch` holds many of them in columns."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    """In ms since 1970 UTC."""
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_type: str = NO_TIMESTAMP_TYPE


class OffsetRange(NamedTuple):
    """The records of one partition from offset ``first`` to below ``end``."""

    partition: TopicPartition
    first: int
    end: int

    def __str__(self) -> str:
        return f"{self.partition} from {self.first} to below {self.end}"


@dataclass(frozen=True, slots=True)
class FailedRead:
    """A record that a :class:`RangeReader` could not convert or transform. Picklable."""

    record: RawRecord
    """Unchanged, as it is in Kafka."""
    stage: str
    """Kafka Connect's name of the stage, such as ``TRANSFORMATION``."""
    plugin: str
    """``module:Class`` of the converter or transformation."""
    alias: str | None
    """Of the transformation."""
    error: Exception
    """What the plugin raised."""


@dataclass(frozen=True, slots=True)
class RangeBatch:
    """The next records of a range. ``raw`` has all that were read; ``records`` those of them that are left after converters and
    transformations, or None from a reader of undecoded records."""

    raw: RawBatch
    records: Sequence[SinkRecord] | None
    failures: Sequence[FailedRead]
    end: int
    """The offset up to which the range has been read: after the last record, or the end of the range."""


class RangeReader(Protocol):
    """Reads records of a sink task in any process, also on another machine, without the task's consumer group.

    Picklable, and then plain data: the settings of the consumer, the converters, and the transformations, with their secrets. It
    must travel only in messages to the process that reads, never through a configuration or a log (promise 9).
    """

    def read(self, offset_range: OffsetRange) -> Iterator[RangeBatch]:
        """Yields the records of a range in order, as the task would get them: with the isolation level, converters,
        transformations, and error tolerance of the connector. The last batch has the range's end as its ``end``, whether or not
        there is a record just before it (transactions, compaction).

        If failures are not tolerated, the first one ends the range. Raises ConnectError when records were deleted, and
        RetriableError when no broker answers.
        """

    def converters(self) -> tuple[Converter, Converter]:
        """Creates the converters of keys and values in this process."""


class ErrantRecordReporter(Protocol):
    """Reports errant records, which the task could not deliver (KIP-610). May be called from any thread.

    A reported record counts as processed: the worker commits its offset only after the report is durable. With
    ``errors.tolerance=none``, the record is reported, and then ConnectError is raised. The task should let it propagate; its next
    ``put`` fails otherwise.
    """

    def report(self, record: SinkRecord, error: Exception) -> Future[None]:
        """Sends the record to the dead letter queue and the log. The future completes when the report is durable.

        For a record that ``put`` received, its original bytes from Kafka are reported, whatever the transformations changed. Any
        other record is converted to bytes first, which may raise DataError.
        """

    def report_raw(self, record: RawRecord, error: Exception) -> Future[None]:
        """Reports an undecoded record, for a task with ``put_raw``."""


class SinkTaskContext(Protocol):
    """The worker's services for a sink task. Call them only on the task's own thread, unless they say otherwise."""

    def configs(self) -> Mapping[str, str]:
        """Returns the task's configuration, with variables resolved at the time of the call."""

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Rewinds these partitions to the given offsets before the next ``put``. Call it in ``open``, ``put``, or
        ``pre_commit``. The task must discard buffered records of these partitions from that offset on."""

    def timeout(self, timeout_ms: int) -> None:
        """Asks for the next ``put`` within this time, without records if there are none."""

    def assignment(self) -> set[TopicPartition]:
        """Returns the partitions that are assigned to the task."""

    def pause(self, *partitions: TopicPartition) -> None:
        """Pauses delivery from these partitions until ``resume``."""

    def resume(self, *partitions: TopicPartition) -> None:
        """Resumes delivery from these partitions."""

    def request_commit(self) -> None:
        """Asks for an offset commit (``pre_commit``) before the next ``put``, without waiting for the interval."""

    @property
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """The reporter of errant records; None unless the connector has a dead letter queue or logs errors."""

    @property
    def key_converter(self) -> Converter: ...

    @property
    def value_converter(self) -> Converter: ...

    @property
    def raw_allowed(self) -> bool:
        """Whether :meth:`SinkTask.wants_raw` may return True: there are no transformations, and no tolerance or dead letter queue
        for single records unless the task handles errant records itself (:attr:`SinkTask.reports_raw`)."""

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the current end offset of each partition, for computing lag; unknown partitions are omitted."""

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the offset of the first record that each partition still has; unknown partitions are omitted."""

    def group_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the offset that the consumer group has committed for each partition; partitions without one are omitted. Raises
        ConnectError if no broker answers."""

    def positions(self) -> dict[TopicPartition, int]:
        """Returns, for each assigned partition, the offset of the next record for ``put``; partitions for which no broker has
        answered yet are omitted."""

    def range_reader(self) -> RangeReader:
        """Returns a reader for offset ranges of the task's topics, of undecoded records if :meth:`SinkTask.wants_raw` does. A
        task that uses it pauses the partitions, and moves their positions with :meth:`offset` when the records are delivered."""

    def count_read(self, partition: TopicPartition, records: int, size_bytes: int) -> None:
        """Counts records that were read with :meth:`range_reader`, as those of ``put`` are counted."""

    def report_failed_read(self, failure: FailedRead) -> Future[None]:
        """Counts and reports a record as ``errors.*`` say. The future completes when the report is durable; only then may an
        offset beyond the record be returned from ``pre_commit`` (promise 7). Raises ConnectError unless failures are tolerated,
        after the report."""

    def topic_identities(self, topics: Collection[str]) -> dict[str, TopicIdentity]:
        """Asks the broker for the identity of each topic; topics that do not exist are omitted. Raises ConnectError if no broker
        answers. May be called from any thread."""


class SinkTask(ABC):
    """Delivers batches of records to a system.

    Threads: all methods are called on the task's own thread, except ``stop``, ``lag``, and ``progress``. Call order:
    ``initialize``, ``start``, ``open``, then ``put`` with ``pre_commit`` at intervals; in a rebalance ``pre_commit``,
    ``close_partitions``, ``open``; at the end ``pre_commit``, ``close_partitions``, ``close``.
    """

    reports_raw: ClassVar[bool] = False
    """Set to True in a task whose ``put_raw`` passes each record that it cannot decode to
    ``context.errant_record_reporter.report_raw``, or skips it if there is no reporter and ``errors.tolerance=all``."""

    needs_exact_values: ClassVar[bool] = False
    """Set to True in a task that must not receive a value that a converter changed silently: its converters then have
    ``conversion.strict=true``, unless the connector sets it."""

    allows_offset_resets: ClassVar[bool] = True
    """Set to False in a task that must not continue behind records that it did not get. ``auto.offset.reset`` then says only
    where a partition without a committed offset starts. If the topic does not have the next offset, because retention
    overtook the task or the topic was recreated, the worker calls :meth:`explain_missing_offset`, and the task fails."""

    context: SinkTaskContext
    pending_work: PendingWork | None = None
    """Work that waits although ``put`` and ``pre_commit`` return, if the task has some. Set it in the constructor or in
    ``start``."""

    def initialize(self, context: SinkTaskContext) -> None:
        """Called once, before ``start``."""
        self.context = context

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None:
        """Opens the task's resources. No partitions are assigned yet."""

    def wants_raw(self) -> bool:
        """Returns True to receive :meth:`put_raw` instead of :meth:`put`. Called once, after ``start``; decide by
        ``self.context.raw_allowed`` and the converters."""
        return False

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """Called when these partitions were assigned, before any ``put`` with their records. ``self.context.offset`` may change
        where reading starts."""

    @abstractmethod
    def put(self, records: Sequence[SinkRecord]) -> None:
        """Takes the next records, in order per partition; may be empty. The task may deliver them now or later: see
        ``pre_commit``.

        Raises RetriableError to receive the same records again; delivering some of them twice must then be harmless. Any other
        error fails the task. Must not block longer than the consumer's ``max.poll.interval.ms`` (5 minutes).
        """

    def put_raw(self, batches: Sequence[RawBatch]) -> None:
        """Takes the next records undecoded, in columns; otherwise like :meth:`put`."""
        raise IllegalStateError(f"{type(self).__name__}.wants_raw() is true, but the task does not define put_raw()")

    def flush(self, offsets: Offsets) -> None:
        """Delivers all records that ``put`` received, durably. ``offsets`` are the offsets after them."""

    def pre_commit(self, offsets: Offsets) -> Offsets:
        """Returns the offsets that are safe to commit (promise 2): all records below them are delivered durably.

        The default flushes and returns ``offsets``. A task that stores offsets with its data returns those; an empty dict
        commits nothing. After an error, the worker rewinds to the last committed offsets.
        """
        self.flush(offsets)
        return offsets

    def close_partitions(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> None:
        """Called when these partitions are revoked; their offsets are already committed. With ``lost``, another task may own them
        already, so nothing more may be written for them."""

    def explain_missing_offset(self, partition: TopicPartition, offset: int) -> None:
        """Called when the topic does not have the offset from which the partition would be read next, unless the task
        :attr:`allows_offset_resets`. Raises ConnectError that says why; otherwise, the worker fails the task with the client's
        words."""

    def lag(self) -> dict[TopicPartition, int] | None:
        """Returns, per partition, the number of records that ``put`` received and that are not visible at the destination yet;
        None for a task that delivers immediately. The worker adds the records not yet put. May be called from any thread."""
        return None

    def progress(self) -> Mapping[str, Any]:
        """Returns the task's progress as values that JSON can hold. Called from any thread; must not block."""
        return {}

    def metrics(self) -> Sequence[Metric]:
        """Returns figures to export at ``GET /metrics``, such as the age of records when they become visible
        (:mod:`connect.metrics`). Called from any thread, at each scrape; must not block."""
        return ()

    def stop(self) -> None:
        """Asks the task to stop. Called from another thread while ``put`` may be running; must not block or release resources."""

    def close(self) -> None:
        """Releases all resources. Called once on the task thread, last, also after a failed ``start``."""
