"""Where a source task's transactions end (``transaction.boundary``), and what a task may ask for about that itself (KIP-618)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from connect.errors import ConfigError, IllegalStateError
from connect.record import SourceRecord

log = logging.getLogger(__name__)


class Boundary(Enum):
    """``transaction.boundary``."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"


class End(Enum):
    """What is to happen to the open transaction."""

    NONE = "none"
    COMMIT = "commit"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class BoundarySettings:
    """Where transactions end."""

    kind: Boundary
    interval_s: float
    """For :attr:`Boundary.INTERVAL`: how long records gather in one transaction."""


def boundary_settings(config: Mapping[str, str], worker_interval_s: float) -> BoundarySettings:
    """What a connector's configuration says. ``worker_interval_s`` is the worker's ``offset.flush.interval.ms``, the default of
    ``transaction.boundary.interval.ms``. Raises ConfigError."""
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


class Part(NamedTuple):
    """A stretch of a batch, and what follows it."""

    records: Sequence[SourceRecord]
    end: End


class RequestedBoundaries:
    """What a task with boundaries of its own has asked for (:class:`connect.source.TransactionContext`). Used on the task's
    thread."""

    def __init__(self) -> None:
        # By identity, as a task means the very record it returns; the record is kept, so that no other takes its id.
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

    def split(self, batch: Sequence[SourceRecord]) -> Iterator[Part]:
        """The batch in stretches, each up to a record after which a transaction ends; what is left comes with NONE. Raises
        IllegalStateError when a record is to end it both ways."""
        start = 0
        if self._commits or self._aborts:
            for place, record in enumerate(batch):
                end = self._end_after(record)
                if end is not End.NONE:
                    yield Part(batch[start : place + 1], end)
                    start = place + 1
        if start < len(batch):
            yield Part(batch[start:] if start else batch, End.NONE)

    def _end_after(self, record: SourceRecord) -> End:
        commit, abort = self._commits.pop(id(record), None), self._aborts.pop(id(record), None)
        if commit is not None and abort is not None:
            raise IllegalStateError(
                "Connector requested both commit and abort of same record against topic/partition "
                f"{record.topic}/{record.partition}"
            )
        if abort is not None:
            log.info("Aborting transaction for record on topic %s as requested by connector", record.topic)
            return End.ABORT
        return End.NONE if commit is None else End.COMMIT

    def after_batch(self) -> End:
        """What is asked for after the batch, once. Raises IllegalStateError when it is both."""
        commit, abort = self._commit_batch, self._abort_batch
        self._commit_batch = self._abort_batch = False
        if commit and abort:
            raise IllegalStateError("Connector requested both commit and abort of same transaction")
        if abort:
            log.info("Aborting transaction for batch as requested by connector")
            return End.ABORT
        return End.COMMIT if commit else End.NONE
