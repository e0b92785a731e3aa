"""Calls of the sink to the storage and to the libraries of the formats: each is counted, may fail, or may be where others act."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from connectors.spark.tables.conflicts import CommitConflict

BEFORE = "before"
"""The call fails, and nothing has happened."""
AFTER = "after"
"""The call takes effect, and its answer is lost."""
CONFLICT = "conflict"
"""A commit takes effect, and is reported as a conflict: a client whose first request has landed repeats it and meets itself."""

READS, WRITES, COMMITS = (BEFORE,), (BEFORE, AFTER), (BEFORE, AFTER, CONFLICT)
"""How calls of a kind can fail."""


class StorageDown(OSError):
    """What the sink sees of a failed call."""

    def __init__(self, what: str) -> None:
        super().__init__(f"AWS Error NETWORK_CONNECTION during GetObject operation: {what}")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a step; ``kinds`` are the ways in which it can fail."""

    what: str
    kinds: tuple[str, ...]


class Calls:
    """The calls of the step that runs. Calls of foreign writers and of the checks are not among them."""

    def __init__(self) -> None:
        self._made: list[Call] = []
        self._at: tuple[int, str | Callable[[], None]] | None = None
        self._counts = False

    @contextmanager
    def counted(self, at: int = 0, what: str | Callable[[], None] = BEFORE) -> Iterator[list[Call]]:
        """For a with block of one step, which gets its calls: number ``at`` fails in this way, or others act just before it."""
        before = self._made, self._at, self._counts
        self._made, self._at, self._counts = [], (at, what) if at else None, True
        try:
            yield self._made
        finally:
            self._made, self._at, self._counts = before

    @contextmanager
    def call(self, what: str, kinds: tuple[str, ...] = READS) -> Iterator[None]:
        """Around whatever stands for one call."""
        if not self._counts:
            yield
            return
        self._made.append(Call(what, kinds))
        number, planned = self._at or (0, BEFORE)
        is_here = number == len(self._made)
        if is_here and callable(planned):
            self._counts = False
            try:
                planned()
            finally:
                self._counts = True
        if is_here and planned == BEFORE:
            raise StorageDown(what)
        yield
        if is_here and planned == AFTER:
            raise StorageDown(what)
        if is_here and planned == CONFLICT:
            raise CommitConflict(f"{what}: the version exists")
