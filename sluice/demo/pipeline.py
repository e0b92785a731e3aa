"""What the demo needs to know about that which moves the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SnapshotProgress:
    """How far the snapshot is."""

    rows: float
    """Rows in tables."""
    note: str
    is_complete: bool


class Pipeline(Protocol):
    """Moves the shop's rows and changes into tables."""

    @property
    def path(self) -> str:
        """What the data goes through, for a sentence."""
        ...

    def check(self) -> None:
        """Raises ConnectError with the cause when a part has failed."""
        ...

    def snapshot_progress(self) -> SnapshotProgress: ...

    def catch_up(self, events: int) -> Callable[[], bool]:
        """Returns a condition: the tables have all that was committed until now, which was this many rows and change events."""
        ...

    def latency_ms(self) -> dict[str, float | None]:
        """Returns p50 and p99 of the latency of live changes, from the commit in the database to the table commit."""
        ...
