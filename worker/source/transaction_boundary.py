"""Where the transactions of a source task end: ``transaction.boundary``, and the boundaries a task defines itself (KIP-618)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from connect.errors import ConfigError, IllegalStateError
from connect.record import SourceRecord

log = logging.getLogger(__name__)

_MERGED_S = 0.5
"""For how long batches of a backlog are put into one transaction."""


class Boundary(Enum):
    """``transaction.boundary``."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"


class TransactionEnd(Enum):
    """What to do with the open transaction."""

    NONE = "none"
    COMMIT = "commit"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class BoundarySettings:
    """Where transactions end."""

    kind: Boundary
    interval_s: float
    """The time between commits, for :attr:`Boundary.INTERVAL`."""


def parse_boundary(config: Mapping[str, str], worker_interval_s: float) -> BoundarySettings:
    """Reads a connector's boundary settings. Raises ConfigError.

    ``worker_interval_s`` is the worker's ``offset.flush.interval.ms``, the default of ``transaction.boundary.interval.ms``.
    """
    text = config.get("transaction.boundary", "").strip() or Boundary.POLL.value
    try:
        kind = Boundary(text.lower())
    except ValueError as e:
        expected = ", ".join(boundary.value for boundary in Boundary)
        raise ConfigError.invalid("transaction.boundary", text, f"expected one of {expected}") from e
    interval = config.get("transaction.boundary.interval.ms", "").strip()
    if not interval:
        return BoundarySettings(kind, worker_interval_s)
    try:
        return BoundarySettings(kind, int(interval) / 1000)
    except ValueError as e:
        raise ConfigError.invalid("transaction.boundary.interval.ms", interval, "Not a number of type LONG") from e


class BatchPart(NamedTuple):
    """Consecutive records of a batch, and how the transaction ends after them."""

    records: Sequence[SourceRecord]
    end: TransactionEnd


class RequestedBoundaries:
    """The boundaries that a task requested (:class:`connect.source.TransactionContext`). Used on the task's thread."""

    def __init__(self) -> None:
        # By identity: a task means the very record that it returns. The record is stored so that no other one gets its id.
        self._commits: dict[int, SourceRecord] = {}
        self._aborts: dict[int, SourceRecord] = {}
        self._commit_batch = False
        self._abort_batch = False

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        if record is None:
            self._commit_batch = True
        else:
            self._commits[id(record)] = record

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        if record is None:
            self._abort_batch = True
        else:
            self._aborts[id(record)] = record

    def split(self, batch: Sequence[SourceRecord]) -> Iterator[BatchPart]:
        """Splits the batch after each record that ends a transaction; the remainder has NONE.

        Raises IllegalStateError if a record requests both a commit and an abort.
        """
        start = 0
        if self._commits or self._aborts:
            for index, record in enumerate(batch):
                end = self._take_end_after(record)
                if end is not TransactionEnd.NONE:
                    yield BatchPart(batch[start : index + 1], end)
                    start = index + 1
        if start < len(batch):
            yield BatchPart(batch[start:] if start else batch, TransactionEnd.NONE)

    def _take_end_after(self, record: SourceRecord) -> TransactionEnd:
        commit, abort = self._commits.pop(id(record), None), self._aborts.pop(id(record), None)
        if commit is not None and abort is not None:
            raise IllegalStateError(
                "Connector requested both commit and abort of same record against topic/partition "
                f"{record.topic}/{record.partition}"
            )
        if abort is not None:
            log.info("Aborting transaction for record on topic %s as requested by connector", record.topic)
            return TransactionEnd.ABORT
        return TransactionEnd.NONE if commit is None else TransactionEnd.COMMIT

    def take_end_after_batch(self) -> TransactionEnd:
        """Returns what the task requested for the whole batch, once. Raises IllegalStateError if it requested both ends."""
        commit, abort = self._commit_batch, self._abort_batch
        self._commit_batch = self._abort_batch = False
        if commit and abort:
            raise IllegalStateError("Connector requested both commit and abort of same transaction")
        if abort:
            log.info("Aborting transaction for batch as requested by connector")
            return TransactionEnd.ABORT
        return TransactionEnd.COMMIT if commit else TransactionEnd.NONE


class BacklogMerging:
    """Puts consecutive batches of a backlog into one transaction, because a commit takes several milliseconds, no matter how few
    records it has.

    A transaction has at most twice as many batches as the one before, starting with one: if a batch fails its task again and
    again, those before it are committed by the next runs.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` returns seconds."""
        self._clock = clock
        self._limit = 1
        self._batches = 0
        self._started_at = 0.0

    def reset(self) -> None:
        """The transaction has ended."""
        self._batches = 0

    def continues_after_batch(self, *, has_more: bool) -> bool:
        """Returns whether the next batch belongs to the same transaction. ``has_more`` says whether it is there already."""
        now = self._clock()
        if not self._batches:
            self._started_at = now
        self._batches += 1
        if has_more and self._batches < self._limit and now - self._started_at < _MERGED_S:
            return True
        self._limit, self._batches = 2 * self._batches, 0
        return False


class TransactionBoundaries:
    """Decides where the transactions of one task end."""

    def __init__(self, settings: BoundarySettings, flush_interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` returns seconds."""
        self.requested = RequestedBoundaries() if settings.kind is Boundary.CONNECTOR else None
        """The boundaries that the task defines itself; None if it may not."""
        self._settings = settings
        self._flush_interval_s = flush_interval_s
        self._clock = clock
        self._interval_started = 0.0
        self._merging = BacklogMerging(clock)

    def start_interval(self) -> None:
        """Called when the task starts or resumes, and for each commit."""
        self._interval_started = self._clock()
        self._merging.reset()

    def split(self, batch: Sequence[SourceRecord] | None) -> Sequence[BatchPart]:
        """Splits the batch where the task requested an end."""
        if not batch:
            return ()
        return [BatchPart(batch, TransactionEnd.NONE)] if self.requested is None else list(self.requested.split(batch))

    def end_after_batch(self, *, is_open: bool, has_more: bool) -> TransactionEnd:
        """Returns what happens after a batch.

        ``is_open`` says whether there is an open transaction, ``has_more`` whether the next batch is there already.
        """
        if self.requested is not None:
            return self.requested.take_end_after_batch()
        if self._settings.kind is Boundary.INTERVAL:
            return TransactionEnd.COMMIT if self._is_over(self._settings.interval_s) else TransactionEnd.NONE
        if is_open:
            return TransactionEnd.NONE if self._merging.continues_after_batch(has_more=has_more) else TransactionEnd.COMMIT
        # Offsets of batches whose records were all dropped do not need a transaction each.
        return TransactionEnd.COMMIT if self._is_over(self._flush_interval_s) else TransactionEnd.NONE

    def end_without_batch(self) -> TransactionEnd:
        """Returns what happens when the task is paused or stops. A transaction whose end only the task knows stays open, as in
        Apache's worker."""
        return TransactionEnd.COMMIT if self.requested is None else self.requested.take_end_after_batch()

    def _is_over(self, interval_s: float) -> bool:
        return self._clock() >= self._interval_started + interval_s
