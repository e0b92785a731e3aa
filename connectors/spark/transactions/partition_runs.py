"""The records of one partition that are in no completed round, by their transactions."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection
from dataclasses import dataclass, field

from connectors.spark.transactions.events import TransactionEvent

_MAX_SEEN = 10_000


@dataclass(slots=True)
class Run:
    """Records in a row of one transaction, or (``key`` is None) of none. ``is_open``: events that the source repeats, and that
    have not reached yet what was known before."""

    key: str | None
    end: int
    is_open: bool = False


@dataclass(slots=True)
class PartitionRuns:
    """``done``: everything below is in a completed round. ``position``: everything below was read. Both are None until it is
    known where reading starts."""

    done: int | None = None
    position: int | None = None
    newest: tuple[str, int] | None = None
    """Transaction and place of the newest event."""
    _runs: deque[Run] = field(default_factory=deque)
    _seen: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def add(self, offset: int, event: TransactionEvent | None) -> bool:
        """Adds the next record; returns whether it is an event that was not there before.

        A source that does not produce exactly once repeats events after a crash, in the order of the first time. Applying only
        some of them would take rows back, so they are one run, which is closed by the newest event that was known before.
        """
        self.read_to(offset, offset + 1)
        end = offset + 1
        last = self._runs[-1] if self._runs else None
        if event is None:
            self._extend(last, last.key if last is not None and last.is_open else None, end)
            return False
        is_repeated = event.order <= self._seen.get(event.key, 0)
        if is_repeated and self.newest is not None:
            if last is None or not last.is_open:
                last = Run(self.newest[0], end, is_open=True)
                self._runs.append(last)
            last.end = end
            last.is_open = (event.key, event.order) != self.newest
            return False
        if last is not None:
            last.is_open = False
        self._extend(last, event.key, end)
        self.newest = (event.key, event.order)
        self._seen[event.key] = event.order
        self._seen.move_to_end(event.key)
        if len(self._seen) > _MAX_SEEN:
            self._seen.popitem(last=False)
        return True

    def _extend(self, last: Run | None, key: str | None, end: int) -> None:
        if last is not None and last.key == key:
            last.end = end
        else:
            self._runs.append(Run(key, end))

    def read_to(self, start: int, position: int) -> None:
        """Everything below ``position`` was read; ``start`` counts if it was not known where reading starts."""
        if self.done is None:
            self.done = start
        self.position = max(self.position or 0, position)

    def transactions(self) -> list[str]:
        """The transactions, in order."""
        return [run.key for run in self._runs if run.key is not None]

    def cut(self, keys: Collection[str]) -> tuple[int | None, set[str]]:
        """Where records begin that do not belong to these transactions, and the transactions of all records from there on."""
        end = self.done
        for index, run in enumerate(self._runs):
            if run.is_open or (run.key is not None and run.key not in keys):
                behind = {other.key for other in list(self._runs)[index:] if other.key is not None}
                return end, behind
            end = run.end
        # Offsets without a record: filtered, compacted, or of Kafka's own transactions.
        return self.position if end is None else max(end, self.position or 0), set()

    def advance(self, end: int) -> None:
        """Everything below is in a completed round."""
        self.done = max(self.done or 0, end)
        while self._runs and self._runs[0].end <= end:
            self._runs.popleft()
