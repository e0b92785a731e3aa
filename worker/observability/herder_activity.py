"""What a worker's own thread is doing: told to whoever waited for it in vain, in Apache's words.

The thread that carries out requests notes each stage of its work; REST adds the sentence to an answer that timed out.
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
class Stage:
    """One piece of work, as ``reading to the end of the config topic``. Times are in ms since 1970."""

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


class CurrentStage:
    """The stage that one thread is in, or was in last. Any thread may ask."""

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._stages: list[Stage] = []
        self._last: Stage | None = None

    @contextmanager
    def of(self, description: str) -> Iterator[None]:
        """The block is this stage. Blocks may lie in each other: the innermost one is told."""
        stage = Stage(description, self._now_ms())
        with self._lock:
            self._stages.append(stage)
        try:
            yield
        finally:
            with self._lock:
                self._stages.remove(stage)
                self._last = replace(stage, completed_ms=self._now_ms())

    def now(self) -> Stage | None:
        """The stage that goes on, else the last one; None before there was any."""
        with self._lock:
            return self._stages[-1] if self._stages else self._last

    def timed_out(self) -> str:
        """What an answer says after the request timeout."""
        stage = self.now()
        return TIMED_OUT if stage is None else f"{TIMED_OUT}. {stage.sentence()}"


def _instant(ms: int) -> str:
    """As Java's Instant prints it: no fraction where there is none."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    text = moment.isoformat(timespec="milliseconds" if ms % 1000 else "seconds")
    return text.replace("+00:00", "Z")
