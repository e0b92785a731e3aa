"""Finds consistent points: offsets of all partitions between which and the ones before there are only whole transactions.

A source sends the events of its transactions in the order of their commits, so each partition has them in this order, and so does
the one partition of the END events. A transaction is complete when its END event has arrived and each collection's events are
there as often as that event says. A point takes a prefix of the complete transactions: in each partition their events, and
records that belong to no transaction (snapshots, tombstones) up to the next transaction.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from connect.record import TopicPartition
from connectors.spark.transactions.collections import CollectionTopics
from connectors.spark.transactions.events import ReadEvent, TransactionEnd, TransactionEvent
from connectors.spark.transactions.partition_runs import PartitionRuns

_MAX_ENDED = 100_000
_QUIET_MS = 30_000
"""A partition without new records for so long is read to its end, though offsets without records may be missing: those of Kafka's
own transactions, and of filtered records."""


@dataclass(frozen=True, slots=True)
class ConsistentPoint:
    """``ends``: the offset in each partition. ``last`` is the END event of its newest transaction; None if there are only records
    of no transaction. ``transactions``: how many are new."""

    ends: Mapping[TopicPartition, int]
    last: TransactionEnd | None = None
    transactions: int = 0


@dataclass(frozen=True, slots=True)
class IncompleteTransaction:
    """A transaction some of whose events will not come: they were filtered, or deleted by retention, or are in the tables."""

    id: str
    collection: str
    expected: int
    arrived: int


@dataclass(frozen=True, slots=True)
class _LogEnds:
    """The ends of partitions when they were looked up."""

    offsets: Mapping[TopicPartition, int]
    asked_ms: int

    def are_read(self, partition: TopicPartition, position: int | None, now_ms: int) -> bool:
        return (position or 0) >= self.offsets[partition] or now_ms - self.asked_ms >= _QUIET_MS


@dataclass(slots=True)
class _Events:
    """Events of one transaction that have arrived: by the names of their collections, and when the newest one was written."""

    counts: dict[tuple[str, ...], int] = field(default_factory=dict)
    newest_ms: int = 0


@dataclass(slots=True)
class _Waiting:
    """A transaction whose END event has arrived. ``lacking``: its collections whose events may still come."""

    end: TransactionEnd
    number: int
    is_repeated: bool
    deadline_ms: int
    lacking: set[str] = field(default_factory=set)
    log_ends: _LogEnds | None = None
    """From after the deadline."""


class TransactionOrder:
    """All partitions of a task. Pure: the caller tells the time and asks the broker for the ends of partitions."""

    def __init__(
        self, end_partition: TopicPartition, timeout_ms: int, *, newest_lsn: int | None = None, is_aligned: bool = False
    ) -> None:
        """``end_partition`` has the END events. ``timeout_ms``: how long after one its transaction's events may still become
        visible in other partitions. ``newest_lsn``: of the newest transaction that the tables have. ``is_aligned``: all
        partitions start at a consistent point; otherwise, the first point has all that was in them when it was looked for."""
        self._end_partition = end_partition
        self._timeout_ms = timeout_ms
        self._ends = PartitionRuns()
        self._parts: dict[TopicPartition, PartitionRuns] = {}
        self._topics = CollectionTopics(end_partition.topic)
        self._waiting: list[_Waiting] = []
        self._ended: OrderedDict[str, int] = OrderedDict()
        self._events: dict[str, _Events] = {}
        self._newest_lsn = self._last_lsn = newest_lsn or 0
        self._newest_end_ms = 0
        self._next_number = 1
        self._released: dict[TopicPartition, int] = {}
        self._is_aligned = is_aligned
        self._barrier: _LogEnds | None = None

    # -- partitions

    def assign(self, partition: TopicPartition, offset: int | None, released: int = 0) -> None:
        """The task reads the partition from this offset, if it is known; some table has its records below ``released``."""
        runs = PartitionRuns(offset, offset)
        if partition == self._end_partition:
            self._ends = runs
            return
        self._parts[partition] = runs
        self._released[partition] = released
        self._topics.assign(partition)
        self._barrier = None

    def forget(self, partition: TopicPartition) -> None:
        """The partition has another owner."""
        if self._parts.pop(partition, None) is not None:
            del self._released[partition]
            self._topics.remove(partition)

    def data_partitions(self) -> set[TopicPartition]:
        """The partitions that were assigned, without that of the END events."""
        return set(self._parts)

    def partitions(self) -> list[TopicPartition]:
        """All partitions that were assigned. Callable from any thread."""
        return [self._end_partition, *list(self._parts)]

    @property
    def is_ahead(self) -> bool:
        """Whether a table has more than the completed rounds."""
        return any(released > (self._parts[tp].done or 0) for tp, released in self._released.items())

    def _runs_of(self, partition: TopicPartition) -> PartitionRuns | None:
        return self._ends if partition == self._end_partition else self._parts.get(partition)

    def position(self, partition: TopicPartition) -> int | None:
        """The offset after the last record that was read; None if it is not known."""
        runs = self._runs_of(partition)
        return None if runs is None else runs.position

    def done(self, partition: TopicPartition) -> int | None:
        """The offset up to which completed rounds have everything; None if it is not known."""
        runs = self._runs_of(partition)
        return None if runs is None else runs.done

    def read_to(self, partition: TopicPartition, offset: int) -> None:
        """The partition was read up to an offset; the last records may have been filtered."""
        runs = self._runs_of(partition)
        if runs is not None:
            runs.read_to(offset, offset)

    # -- records

    def add(
        self, partition: TopicPartition, offset: int, event: TransactionEvent | ReadEvent | None, written_ms: int = 0
    ) -> None:
        """The next record of a partition; None for one that belongs to no transaction."""
        runs = self._parts[partition]
        if event is not None:
            self._topics.learn(partition.topic, event.collections)
        if not isinstance(event, TransactionEvent):
            if event is not None and event.is_initial:
                self._is_aligned, self._barrier = False, None
            runs.add(offset, None)
        elif runs.add(offset, event):
            found = self._events.setdefault(event.key, _Events())
            found.counts[event.collections] = found.counts.get(event.collections, 0) + 1
            found.newest_ms = max(written_ms, found.newest_ms)

    def add_end(self, end: TransactionEnd, now_ms: int) -> None:
        """The next END event."""
        self._ends.read_to(end.offset, end.offset + 1)
        is_repeated = self._is_repeated(end)
        number = self._ended.get(end.key) if is_repeated else None
        if number is None:
            number, self._next_number = self._next_number, self._next_number + 1
        else:
            end = replace(end, expected={})  # its events were there before
        if not is_repeated:
            self._ended[end.key] = number
            self._newest_end_ms = max(end.written_ms, self._newest_end_ms)
            self._last_lsn = max(end.lsn or 0, self._last_lsn)
            if len(self._ended) > _MAX_ENDED:
                self._ended.popitem(last=False)
        deadline_ms = (end.written_ms or now_ms) + self._timeout_ms
        self._waiting.append(_Waiting(end, number, is_repeated, deadline_ms, set(end.expected)))

    def _is_repeated(self, end: TransactionEnd) -> bool:
        if end.lsn is None:
            return end.key in self._ended
        return end.lsn <= self._last_lsn

    # -- completeness

    def _settle(self, now_ms: int) -> Iterator[IncompleteTransaction]:
        """Finds out which events have arrived or will not come; yields the latter."""
        for waiting in self._waiting:
            for collection in list(waiting.lacking):
                expected, arrived = waiting.end.expected[collection], self._arrived(waiting.end.key, collection)
                partitions = self._topics.partitions_of(collection)
                if arrived >= expected or not partitions:
                    waiting.lacking.discard(collection)
                elif all(self._has_passed(tp, waiting, now_ms) for tp in partitions):
                    waiting.lacking.discard(collection)
                    self._topics.has_no(collection)
                    yield IncompleteTransaction(waiting.end.id, collection, expected, arrived)

    def _arrived(self, key: str, collection: str) -> int:
        found = self._events.get(key)
        return 0 if found is None else sum(count for names, count in found.counts.items() if collection in names)

    def _has_passed(self, partition: TopicPartition, waiting: _Waiting, now_ms: int) -> bool:
        """Whether no event of the transaction can come in this partition any more: there is one of a later transaction, or it was
        read to an end that it had when the source had to be done with the transaction."""
        runs = self._parts[partition]
        if runs.newest is not None and self._ended.get(runs.newest[0], 0) > waiting.number:
            return True
        return waiting.log_ends is not None and waiting.log_ends.are_read(partition, runs.position, now_ms)

    def wants_log_ends(self, now_ms: int) -> bool:
        """Whether the ends of the partitions must be looked up now, for :meth:`set_log_ends`."""
        if not self._is_aligned and self._barrier is None and self._waiting:
            return True
        return any(w.lacking and w.log_ends is None and now_ms >= w.deadline_ms for w in self._waiting)

    def set_log_ends(self, ends: Mapping[TopicPartition, int], now_ms: int) -> None:
        """The ends of all partitions at this time; without effect if some are missing."""
        if not ends.keys() >= set(self.partitions()):
            return
        found = _LogEnds(ends, now_ms)
        if not self._is_aligned and self._barrier is None and self._waiting:
            self._barrier = found
        for waiting in self._waiting:
            if waiting.log_ends is None and now_ms >= waiting.deadline_ms:
                waiting.log_ends = found

    def _passes_barrier(self, now_ms: int) -> bool:
        """Whether all that was in the partitions when the first END event had arrived was read. Nothing counts the rows of
        snapshots, and records that are read again, because offsets were moved, show rows of the past."""
        barrier = self._barrier
        if self._is_aligned:
            return True
        return barrier is not None and all(barrier.are_read(tp, self.position(tp), now_ms) for tp in self.partitions())

    def _before_barrier(self) -> int:
        """How many of the waiting transactions the next point must have."""
        if self._is_aligned or self._barrier is None:
            return 0
        offset = self._barrier.offsets[self._end_partition]
        return sum(1 for w in self._waiting if w.end.offset < offset)

    def _reaches_barrier(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether a point has all records of before the barrier."""
        barrier = self._barrier
        if self._is_aligned or barrier is None:
            return True
        return all(ends.get(tp, 0) >= min(barrier.offsets[tp], runs.position or 0) for tp, runs in self._parts.items())

    # -- points

    def find_point(self, now_ms: int) -> tuple[ConsistentPoint | None, list[IncompleteTransaction]]:
        """The newest consistent point, if there is one that the tables can reach; and transactions whose events will not come."""
        incomplete = list(self._settle(now_ms))
        least = self._before_barrier()
        count = 0
        if self._passes_barrier(now_ms):
            count = sum(1 for _ in itertools.takewhile(lambda w: not w.lacking, self._waiting))
        lost = self._keys_without_end()
        while True:
            count = self._without_repeated(count if count >= least else 0)
            keys = {w.end.key for w in self._waiting[:count]} | lost
            ends, behind = self._cut(keys)
            # Events of a chosen transaction that are behind those of another one: only together with that.
            first = next((i for i, w in enumerate(self._waiting[:count]) if w.end.key in behind), None)
            if first is None and (not count or self._reaches_barrier(ends)):
                return self._as_point(ends, count), incomplete
            count = first or 0

    def _without_repeated(self, count: int) -> int:
        """Leaves out END events that repeat earlier ones: rows are those of the past until the last of them."""
        newest_lsn = max((w.end.lsn or 0 for w in self._waiting[:count]), default=0)
        newest_lsn = max(newest_lsn, self._newest_lsn)
        while count:
            waiting = self._waiting[count - 1]
            lsn = waiting.end.lsn
            if (lsn >= newest_lsn) if lsn is not None else (not waiting.is_repeated or waiting.number == self._next_number - 1):
                break
            count -= 1
        return count

    def _cut(self, keys: Collection[str]) -> tuple[dict[TopicPartition, int], set[str]]:
        ends: dict[TopicPartition, int] = {}
        behind: set[str] = set()
        for tp, runs in self._parts.items():
            end, others = runs.cut(keys)
            behind |= others
            if end is not None:
                ends[tp] = end
        return ends, behind

    def _as_point(self, ends: dict[TopicPartition, int], count: int) -> ConsistentPoint | None:
        if any(ends.get(tp, 0) < released for tp, released in self._released.items()):
            return None  # a table has more than that
        last = self._waiting[count - 1].end if count else None
        if last is not None:
            ends[self._end_partition] = last.offset + 1
        elif all(end <= (self._parts[tp].done or 0) for tp, end in ends.items()):
            return None
        return ConsistentPoint(ends, last, count)

    def _keys_without_end(self) -> set[str]:
        """Transactions whose END event does not come, because that of a later one has arrived."""
        waiting = {w.end.key for w in self._waiting if not w.is_repeated}
        found = set()
        for runs in self._parts.values():
            has_later = False
            for key in reversed(runs.transactions()):
                if key in waiting:
                    has_later = True
                elif has_later or key in self._ended or self._is_older_than_an_end(key):
                    found.add(key)
        return found

    def _is_older_than_an_end(self, key: str) -> bool:
        """Whether the transaction's events were written before an END event that has arrived."""
        events = self._events.get(key)
        return events is not None and 0 < events.newest_ms < self._newest_end_ms

    def advance(self, point: ConsistentPoint) -> None:
        """The tables are at the point."""
        for tp, end in point.ends.items():
            runs = self._runs_of(tp)
            if runs is not None:
                runs.advance(end)
        if point.last is None:
            return
        done, self._waiting = self._waiting[: point.transactions], self._waiting[point.transactions :]
        self._newest_lsn = max([self._newest_lsn, *(w.end.lsn or 0 for w in done)])
        self._is_aligned, self._barrier = True, None
        live = {key for runs in self._parts.values() for key in runs.transactions()} | {w.end.key for w in self._waiting}
        self._events = {key: events for key, events in self._events.items() if key in live}

    def release_all(self) -> None:
        """The tables get everything that was read, though it ends within transactions."""
        for tp, runs in self._parts.items():
            self._released[tp] = max(runs.position or 0, self._released.get(tp, 0))

    # -- what waits

    @property
    def waiting(self) -> int:
        """Number of transactions whose END event has arrived, and that no completed round has. Callable from any thread."""
        return len(self._waiting)

    def lacking(self) -> list[tuple[str, str]]:
        """Transactions whose END event has arrived before all of their events, with the first collection that lacks some."""
        return [(w.end.id, min(w.lacking)) for w in self._waiting if w.lacking]

    def without_end(self) -> list[str]:
        """Transactions whose events have arrived, but not their END event."""
        waiting = {w.end.key for w in self._waiting}
        return list(dict.fromkeys(key for runs in self._parts.values() for key in runs.transactions() if key not in waiting))
