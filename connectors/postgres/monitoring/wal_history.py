"""How the server's WAL has grown: tells the age of a position, and how fast the WAL grows."""

from __future__ import annotations

from bisect import bisect_right

_RATE_WINDOW_S = 600.0


class WalHistory:
    """Samples of the end of the WAL with the server's clock, in seconds. Has at most ``limit``: older ones are thinned out."""

    def __init__(self, limit: int = 720) -> None:
        self._limit = limit
        self._times: list[float] = []
        self._lsns: list[int] = []

    def add(self, time_s: float, lsn: int) -> None:
        """Adds a sample. A lower LSN, or an earlier time, is that of another server: the history starts over."""
        if self._lsns and (lsn < self._lsns[-1] or time_s < self._times[-1]):
            self._times, self._lsns = [], []
        self._times.append(time_s)
        self._lsns.append(lsn)
        if len(self._times) > self._limit:
            recent = self._limit // 4  # the latest samples remain as they are
            self._times = [*self._times[:-recent:2], *self._times[-recent:]]
            self._lsns = [*self._lsns[:-recent:2], *self._lsns[-recent:]]

    def age_s(self, lsn: int) -> float | None:
        """Returns how long ago the server wrote the WAL directly after ``lsn``, as of the last sample; 0 if there is none.

        None if that was before the first sample. Between two samples, the WAL is taken to have grown evenly.
        """
        if not self._lsns or lsn >= self._lsns[-1]:
            return 0.0
        after = bisect_right(self._lsns, lsn)
        if after == 0:
            return None
        start, end = self._times[after - 1], self._times[after]
        part = (lsn - self._lsns[after - 1]) / (self._lsns[after] - self._lsns[after - 1])
        return self._times[-1] - (start + part * (end - start))

    @property
    def span_s(self) -> float:
        """The time from the first sample to the last one."""
        return self._times[-1] - self._times[0] if self._times else 0.0

    def bytes_per_s(self) -> float:
        """Returns how fast the WAL has grown in the last ten minutes; 0 if that is unknown."""
        if len(self._times) < 2:
            return 0.0
        first = min(bisect_right(self._times, self._times[-1] - _RATE_WINDOW_S), len(self._times) - 2)
        elapsed_s = self._times[-1] - self._times[first]
        return (self._lsns[-1] - self._lsns[first]) / elapsed_s if elapsed_s > 0 else 0.0
