"""A clock that stands until it is turned."""

from __future__ import annotations


class ManualClock:
    """Stands in for ``time.monotonic`` and ``time.time``; not for sharing between threads."""

    def __init__(self, *, epoch_ms: int = 1_700_000_000_000) -> None:
        self._elapsed_s = 0.0
        self._epoch_ms = epoch_ms

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._elapsed_s

    def time_ms(self) -> int:
        """Milliseconds since 1970."""
        return self._epoch_ms + int(self._elapsed_s * 1000)

    def advance(self, seconds: float) -> None:
        """Turns the clock on. Raises ValueError for a step back."""
        if seconds < 0:
            raise ValueError(f"A clock goes forward, not by {seconds} s")
        self._elapsed_s += seconds
