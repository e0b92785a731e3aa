"""Sink tasks: they deliver records to a system. Source of the contract: KIP-26, KIP-610, Kafka Connect's API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar, NamedTuple, Protocol

from connect.converters.api import Converter
from connect.errors import IllegalStateError
from connect.record import NO_TIMESTAMP_TYPE, RawBatch, SinkRecord, TopicPartition

Offsets = dict[TopicPartition, int]
"""Per partition the offset of the next record to be read: last delivered + 1."""


class RawRecord(NamedTuple):
    """One undecoded record, as :class:`connect.record.RawBatch` has them in columns."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    """In ms since 1970 UTC."""
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_type: str = NO_TIMESTAMP_TYPE


class ErrantRecordReporter(Protocol):
    """Takes records that the task could not deliver (KIP-610). May be called from any thread.

    What is reported counts as done with: the worker commits offsets only after the report is durable. With
    ``errors.tolerance=none`` the report is made, and then raises ConnectError, which the task lets through (or fails by with its
    next ``put``).
    """

    def report(self, record: SinkRecord, error: Exception) -> Future[None]:
        """Hands the record to the dead letter queue and log; the future ends when it is there.

        ``record`` is one that ``put`` was given: its bytes in Kafka are reported, whatever transformations made of it. Any other
        is converted to bytes first, which may raise DataError.
        """

    def report_raw(self, record: RawRecord, error: Exception) -> Future[None]:
        """The same for a task that takes undecoded records (``put_raw``)."""


class SinkTaskContext(Protocol):
    """What the worker offers a sink task. Call only on the task's own thread."""

    def configs(self) -> Mapping[str, str]:
        """The task's configuration, variables resolved now."""

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these partitions again from the given offsets. Takes effect before the next ``put``; call it in ``open``,
        ``put`` or ``pre_commit``. What the task holds of these partitions beyond the offset, it must forget."""

    def timeout(self, timeout_ms: int) -> None:
        """Call ``put`` again after at most this long, with no records if there are none."""

    def assignment(self) -> set[TopicPartition]:
        """The partitions that the task has now."""

    def pause(self, *partitions: TopicPartition) -> None:
        """Deliver nothing of these partitions until ``resume``."""

    def resume(self, *partitions: TopicPartition) -> None: ...

    def request_commit(self) -> None:
        """Commit offsets (call ``pre_commit``) before the next ``put``, without waiting for the interval."""

    @property
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """None unless the connector has a dead letter queue or logs errors."""

    @property
    def key_converter(self) -> Converter: ...

    @property
    def value_converter(self) -> Converter: ...

    @property
    def raw_allowed(self) -> bool:
        """True when nothing stands between the topic and the task: no transforms, and no tolerance or dead letter queue for
        single records, unless the task sees to that itself (:attr:`SinkTask.reports_raw`). Only then may
        :meth:`SinkTask.wants_raw` say yes."""

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets after the last record of each partition now, for showing lag; partitions unknown are left out."""


class SinkTask(ABC):
    """Takes batches of records and delivers them.

    Threads: all methods on the task's own thread, except ``stop``, which says so. Order: ``initialize``, ``start``, ``open``,
    then ``put`` and now and then ``pre_commit``; on rebalance ``pre_commit``, ``close_partitions``, ``open``; at the end
    ``pre_commit``, ``close_partitions``, ``close``.
    """

    reports_raw: ClassVar[bool] = False
    """Set to True by a task whose ``put_raw`` gives each record that it cannot decode to
    ``context.errant_record_reporter.report_raw``, or skips it where there is no reporter and ``errors.tolerance=all``."""

    context: SinkTaskContext

    def initialize(self, context: SinkTaskContext) -> None:
        """Called once, before ``start``."""
        self.context = context

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None:
        """Opens what the task needs. No partitions are assigned yet."""

    def wants_raw(self) -> bool:
        """True to be given :meth:`put_raw` instead of :meth:`put`. Asked once, after ``start``; read
        ``self.context.raw_allowed`` and the converters to decide."""
        return False

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions were added; nothing of them was put yet. ``self.context.offset`` may move where reading starts."""

    @abstractmethod
    def put(self, records: Sequence[SinkRecord]) -> None:
        """Takes the next records, in order per partition; may be empty. Delivery may be now or later, see ``pre_commit``.

        Raises RetriableError to be given the same records again; what was delivered of them must not do harm twice. Any
        other error fails the task. Must not block longer than the consumer's ``max.poll.interval.ms`` (5 minutes).
        """

    def put_raw(self, batches: Sequence[RawBatch]) -> None:
        """As :meth:`put`, with undecoded columns."""
        raise IllegalStateError(f"{type(self).__name__}.wants_raw() is true, but the task does not define put_raw()")

    def flush(self, offsets: Offsets) -> None:
        """Delivers everything that was put, durably. ``offsets`` is what was put so far."""

    def pre_commit(self, offsets: Offsets) -> Offsets:
        """The offsets that are safe to commit (promise 2): all records below them are delivered and durable.

        The base flushes and returns what it was given. A task that commits by itself returns what its own store holds; an
        empty dict commits nothing. An error makes the worker rewind to the last committed offsets.
        """
        self.flush(offsets)
        return offsets

    def close_partitions(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> None:
        """These partitions go to another task. Their offsets are committed right after. ``lost``: they went already, so
        nothing more may be written for them."""

    def lag(self) -> dict[TopicPartition, int] | None:
        """Per partition the records that were put and are not visible at the destination yet, for a task that delivers later
        than it takes; None otherwise. The worker adds what was not put yet. May be called from any thread."""
        return None

    def progress(self) -> Mapping[str, Any]:
        """What the task can tell about itself, as plain JSON-able values; see :meth:`SourceTask.progress`."""
        return {}

    def stop(self) -> None:
        """A request to end, from another thread, while ``put`` may be running. Must not block or close anything."""

    def close(self) -> None:
        """Releases everything. Called on the task thread, once, last, also after a failed ``start``."""
