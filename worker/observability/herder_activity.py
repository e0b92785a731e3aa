"""What a worker's herder thread is doing, reported by requests that time out, in Apache's words.

The thread records each operation; REST adds the sentence to the response of a request that timed out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

TIMED_OUT = "Request timed out"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation, such as ``reading to the end of the config topic``. Times are in ms since 1970."""

    description: str
    started_ms: int
    completed_ms: int | None = None

    def sentence(self) -> str:
        if self.completed_ms is None:
            return f"The worker is currently {self.description}, which began at {_instant(self.started_ms)}."
        return (
            f"The last operation the worker completed was {self.description}, which began at {_instant(self.started_ms)} and "
            f"completed at {_instant(self.completed_ms)}."
        )


class HerderActivity:
    """The current or last operation of one thread. Any thread may read it."""

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._operations: list[Operation] = []
        self._last: Operation | None = None

    @contextmanager
    def doing(self, description: str) -> Iterator[None]:
        """Records the block as an operation. Blocks may be nested: the innermost one is reported."""
        operation = Operation(description, self._now_ms())
        with self._lock:
            self._operations.append(operation)
        try:
            yield
        finally:
            with self._lock:
                self._operations.remove(operation)
                self._last = replace(operation, completed_ms=self._now_ms())

    def now(self) -> Operation | None:
        """Returns the current operation, else the last one; None before the first."""
        with self._lock:
            return self._operations[-1] if self._operations else self._last

    def timed_out(self) -> str:
        """Returns the error message of a request that timed out."""
        operation = self.now()
        return TIMED_OUT if operation is None else f"{TIMED_OUT}. {operation.sentence()}"


def _instant(ms: int) -> str:
    """Formats a time like Java's Instant, without a zero fraction."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    text = moment.isoformat(timespec="milliseconds" if ms % 1000 else "seconds")
    return text.replace("+00:00", "Z")
