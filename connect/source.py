"""Source tasks: they copy records out of a system. Source of the contract: KIP-26, KIP-618, Kafka Connect's API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from connect.record import SourceRecord


class OffsetReader(Protocol):
    """Reads stored source offsets. May block on the offset store; safe from any thread."""

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        """The stored offset of a source partition, or None. Integers come back as int, whatever stored them."""

    def offsets(self, partitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
        """The same for several, in their order, in one read."""


class TransactionContext(Protocol):
    """For sources that set their own transaction boundaries (``transaction.boundary=connector``). Call it in ``poll``, before
    that returns the records it is about. What is not ended when the task stops is aborted, and its offsets are not stored."""

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """Commit after the batch that ``poll`` returns next, or after this record of it."""

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """Abort after the next batch, or after this record; its records are thrown away, their offsets kept."""


class SourceTaskContext(Protocol):
    """What the worker offers a source task."""

    def configs(self) -> Mapping[str, str]:
        """The task's configuration, variables resolved now."""

    @property
    def offset_reader(self) -> OffsetReader: ...

    @property
    def transaction_context(self) -> TransactionContext | None: ...


class SourceTask(ABC):
    """Polls a system and returns records.

    Threads: every method is called on the task's own thread, except ``stop``, which the worker calls once from another
    thread while ``poll`` may be running. Order: ``initialize``, ``start``, then ``poll`` with ``commit`` in between, and
    after ``stop`` no more ``poll`` but possibly one last ``commit``, then ``close``.
    """

    wants_commit_record: ClassVar[bool] = False
    """Set to True to have ``commit_record`` called; it costs a callback a record, so most tasks use ``commit``."""

    context: SourceTaskContext

    def initialize(self, context: SourceTaskContext) -> None:
        """Called once, before ``start``."""
        self.context = context

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None:
        """Opens what the task needs. Read stored offsets here through ``self.context.offset_reader``.

        Raises ConfigError or ConnectError to fail the task; nothing needs closing then but what ``close`` will close.
        """

    @abstractmethod
    def poll(self) -> Sequence[SourceRecord] | None:
        """The next records, in order; None or empty when there are none now.

        May block, but comes back within about a second so that the task can be paused; returns at once after ``stop``.
        The unit of work downstream is this batch: return hundreds or thousands when there are so many. Raises
        RetriableError to be called again; any other error fails the task. The worker does not change the list.
        """

    def commit(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
        """The given (source partition, source offset) pairs are stored and durable: everything up to them was acknowledged
        by the broker (promise 1). A source may now release it at the other end (confirm an LSN, acknowledge a message).

        Called on the task thread after each successful offset flush that stored something. An error here is logged, and
        does not fail the task.
        """

    def commit_record(self, record: SourceRecord, metadata: Any | None) -> None:
        """One record was acknowledged, or dropped by a transform or thrown away with its transaction (``metadata`` None). With
        exactly-once this is called when its transaction is committed. Only with ``wants_commit_record``."""

    def progress(self) -> Mapping[str, Any]:
        """What the task can tell about its own progress (snapshot tables, rows, estimate), as plain JSON-able values; shown by
        tools. Called from any thread while the task runs, so it must be quick and not block."""
        return {}

    @abstractmethod
    def stop(self) -> None:
        """Asks the task to end: makes a blocked ``poll`` return. Called from another thread; must not block or close."""

    def close(self) -> None:
        """Releases everything. Called on the task thread, once, last, also after a failed ``start``."""
