"""A clock that only tests advance."""

from __future__ import annotations


class ManualClock:
    """Replaces ``time.monotonic`` and ``time.time``. Not thread-safe."""

    def __init__(self, *, epoch_ms: int = 1_700_000_000_000) -> None:
        self._elapsed_s = 0.0
        self._epoch_ms = epoch_ms

    def monotonic(self) -> float:
        """Returns the seconds since the clock was created."""
        return self._elapsed_s

    def time_ms(self) -> int:
        """Returns the milliseconds since 1970."""
        return self._epoch_ms + int(self._elapsed_s * 1000)

    def advance(self, seconds: float) -> None:
        """Advances the clock. Raises ValueError for a negative step."""
        if seconds < 0:
            raise ValueError(f"A clock cannot go back: {seconds} s")
        self._elapsed_s += seconds
