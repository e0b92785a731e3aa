"""Source tasks: read records from a system. Source of the contract: KIP-26, KIP-618, Kafka Connect's API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from connect.errors import UnsupportedError
from connect.metrics import Metric
from connect.pending_work import PendingWork
from connect.record import SourceRecord


class OffsetReader(Protocol):
    """Reads stored source offsets. May block on the offset store; thread-safe."""

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the stored offset of a source partition, or None. Integers are returned as int, whatever type was stored."""

    def offsets(self, partitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
        """Returns the stored offsets of several source partitions, in their order, with one read."""


class TransactionContext(Protocol):
    """Sets transaction boundaries for sources with ``transaction.boundary=connector``. Call it in ``poll``, before that returns
    the records in question. A transaction that is open when the task stops is aborted, and its offsets are not stored."""

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """Commits after the batch that ``poll`` returns next, or after this record of it."""

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """Aborts after the next batch, or after this record. The records are discarded, but their offsets are stored."""


class TopicRecord(NamedTuple):
    """A record of a topic that a task reads."""

    offset: int
    key: bytes | None
    value: bytes | None


class TopicReader(Protocol):
    """Reads the first partition of a topic, such as commands to a task. For one thread."""

    def read(self) -> Sequence[TopicRecord]:
        """Returns the records that have arrived, without waiting. Problems are logged: brokers may become available later."""

    def commit(self, position: int) -> None:
        """Stores the offset of the first record that is not done in the consumer group. Problems are logged."""

    def close(self) -> None: ...


class OwnedTopic(Protocol):
    """A topic with one partition that only this task writes, such as the history of the schemas it reads with. For one thread.

    Every call may block on the brokers, within the timeouts that it was opened with, and raises UnreachableError if they do not
    answer, ConnectError for other failures.
    """

    def exists(self) -> bool:
        """Returns whether the topic exists. It may be empty."""

    def create(self, configs: Mapping[str, str]) -> None:
        """Creates the topic with one partition, and the brokers' default of replicas, unless it exists."""

    def is_empty(self) -> bool:
        """Returns whether the topic has no records, or does not exist."""

    def read(self) -> Iterator[TopicRecord]:
        """Yields all records that exist when the first one is asked for; none if the topic does not exist."""

    def append(self, values: Sequence[bytes]) -> None:
        """Writes records without keys, in order. On return, all in-sync replicas have acknowledged them.

        After an error, some of them may have been written, or may still be written.
        """

    def close(self) -> None: ...


class OwnedTopicSettings(NamedTuple):
    """How to open a topic: settings of its clients, with Java's names. Without ``bootstrap.servers`` among them, they complete
    those of the worker's consumers and producers."""

    consumer: Mapping[str, str]
    producer: Mapping[str, str]
    query_timeout_s: float = 3.0
    create_timeout_s: float = 30.0
    read_timeout_s: float = 10.0
    """How long to wait for the next records while reading."""
    append_timeout_s: float = 30.0
    """How long the brokers may take to acknowledge what is appended."""


class SourceTaskContext(Protocol):
    """The worker's services for a source task."""

    def configs(self) -> Mapping[str, str]:
        """Returns the task's configuration, with variables resolved at the time of the call."""

    @property
    def offset_reader(self) -> OffsetReader: ...

    @property
    def transaction_context(self) -> TransactionContext | None: ...

    def open_topic(self, topic: str, settings: Mapping[str, str], position: int | None) -> TopicReader:
        """Opens a topic for reading. ``settings`` are those of a consumer, with Java's names.

        Without ``bootstrap.servers`` among them, they complete those of the worker's consumers. ``position`` is the offset to
        start at; None continues where ``group.id`` has committed. Raises ConfigError for settings that cannot work.
        """

    def open_owned_topic(self, topic: str, settings: OwnedTopicSettings) -> OwnedTopic:
        """Opens a topic that the task keeps. Connects when it is first used. Raises ConfigError for settings that cannot work."""


class SourceTask(ABC):
    """Polls a system and returns records.

    Threads: every method is called on the task's own thread, except ``stop``, which the worker calls once from another
    thread while ``poll`` may be running. Call order: ``initialize``, ``start``, then ``poll`` with ``commit`` in between. After
    ``stop`` there is no further ``poll``; one last ``commit`` may follow, then ``close``.
    """

    wants_commit_record: ClassVar[bool] = False
    """Set to True to have ``commit_record`` called. This costs a callback per record, so most tasks use ``commit`` instead."""

    context: SourceTaskContext
    pending_work: PendingWork | None = None
    """Work that waits although ``poll`` returns, if the task has some. Set it in the constructor or in ``start``."""

    def initialize(self, context: SourceTaskContext) -> None:
        """Called once, before ``start``."""
        self.context = context

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None:
        """Opens the task's resources. Read stored offsets here through ``self.context.offset_reader``.

        Raises ConfigError or ConnectError to fail the task; ``close`` is still called.
        """

    @abstractmethod
    def poll(self) -> Sequence[SourceRecord] | None:
        """Returns the next records, in order; None or an empty sequence when there are none now.

        May block, but must return within about a second so that the task can be paused, and promptly after ``stop``. The
        returned batch is the unit of work downstream: return hundreds or thousands of records when available. Raises
        RetriableError to be called again; any other error fails the task. The worker does not modify the sequence.
        """

    def has_more(self) -> bool:
        """Whether the next ``poll`` returns records without waiting. Called on the task thread, after each ``poll``.

        With ``transaction.boundary=poll``, the worker then may put several batches of a backlog into one transaction. They become
        visible together, so say True only if it is certain.
        """
        return False

    def is_loaded(self) -> bool | None:
        """Whether ``poll`` has returned all that existed when reading began, as a snapshot, so that only changes follow.

        A load of the source into tables ends there (:mod:`worker.spool`). Called on the task thread, after each ``poll``. None if
        the source has no such point, or cannot tell.
        """
        return None

    def update_offsets(
        self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
    ) -> Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Returns (source partition, source offset) pairs to store in addition to, or instead of, ``offsets`` (KIP-910).

        Called on the task thread before each offset flush; ``commit`` follows with the pairs that were stored. ``offsets`` are
        those of the last records that were sent since the previous flush, empty if there were none. Not every record that
        ``poll`` returned was sent if the task is about to stop: compare ``offsets``, or what ``commit`` was called with, with
        the last offset that ``poll`` returned. A source that reads past data that it does not capture returns its position
        here, so that its log is released without a record. An error is logged, and ``offsets`` are stored as they are.
        """
        return ()

    def commit(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
        """Called after an offset flush that stored these (source partition, source offset) pairs durably.

        The broker has acknowledged every record up to them (promise 1), so the source may release its log (confirm an LSN,
        acknowledge a message). Called on the task thread. An error here is logged and does not fail the task.
        """

    def commit_record(self, record: SourceRecord, metadata: Any | None) -> None:
        """Called when a record was acknowledged, or, with ``metadata`` None, dropped by a transformation or discarded with its
        transaction. With exactly-once delivery, called when its transaction commits. Requires ``wants_commit_record``."""

    def signal(self, signal_id: str, type: str, data: str | None) -> None:
        """Receives a signal that a user sends to the running task, such as Debezium's ``execute-snapshot``; ``data`` is JSON.

        Called from any thread between ``start`` and ``close``, so it must be quick and must not block: take note of the signal,
        and act in ``poll``. Raises UnsupportedError if the task takes no signals, BadRequestError for one that it cannot take.
        """
        raise UnsupportedError("this task takes no signals")

    def progress(self) -> Mapping[str, Any]:
        """Returns the task's progress (snapshot tables, rows, estimate) as values that JSON can hold; tools show it. Called from
        any thread while the task runs, so it must be quick and must not block."""
        return {}

    def metrics(self) -> Sequence[Metric]:
        """Returns figures to export at ``GET /metrics``, such as the lag behind the source (:mod:`connect.metrics`). Called from
        any thread while the task runs, at each scrape, so it must be quick and must not block."""
        return ()

    @abstractmethod
    def stop(self) -> None:
        """Asks the task to stop and makes a blocked ``poll`` return. Called from another thread; must not block or release
        resources."""

    def close(self) -> None:
        """Releases all resources. Called once on the task thread, last, also after a failed ``start``."""
