"""When a table's commit starts, and how old records are when they become visible."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from connect.metrics import AGES, Histogram

_DURATIONS = 8
_MARGIN = 1.25
_MAX_AGES = 1_000


def quantiles(values: Iterable[float]) -> dict[str, float] | None:
    """Returns ``p50`` and ``p99``; None without values."""
    ordered = sorted(values)
    if not ordered:
        return None
    return {"p50": ordered[len(ordered) // 2], "p99": ordered[len(ordered) * 99 // 100]}


class CommitTiming:
    """Decides how long a table's oldest record waits until its commit starts.

    With an interval, that long. Otherwise so long that the record is visible in time if the commit takes as long as the recent
    ones did, counted from when they were due. If they take longer than that, the next commit starts when the last one has ended.
    """

    def __init__(self, interval_s: float | None, freshness_s: float) -> None:
        self._interval_s = interval_s
        self._freshness_s = freshness_s
        self._durations: deque[float] = deque(maxlen=_DURATIONS)
        self._newest: deque[float] = deque(maxlen=_MAX_AGES)
        self._oldest: deque[float] = deque(maxlen=_MAX_AGES)
        self.freshness = Histogram(AGES)
        """Per commit, how old its oldest change was when it became visible, from its commit in the source."""
        self.last_freshness_s: float | None = None

    def observe_freshness(self, oldest_s: float) -> None:
        """Adds a commit whose oldest change was this old when it became visible."""
        self.last_freshness_s = oldest_s
        self.freshness.observe(max(0.0, oldest_s))

    @property
    def wait_s(self) -> float:
        if self._interval_s is not None:
            return self._interval_s
        if not self._durations:
            return self._freshness_s / 2
        # The second longest, because now and then a commit takes much longer than all others (a checkpoint).
        expected_s = sorted(self._durations)[-2 if len(self._durations) > 1 else -1]
        return max(0.0, self._freshness_s - _MARGIN * expected_s)

    def observe(self, duration_s: float, newest_age_s: float, oldest_age_s: float) -> None:
        """Adds a commit: its time from when it was due until its end, and the ages of its newest and its oldest record then."""
        self._durations.append(duration_s)
        self._newest.append(newest_age_s * 1000)
        self._oldest.append(oldest_age_s * 1000)

    def newest_age_ms(self) -> dict[str, float] | None:
        """Returns quantiles over the recent commits. Callable from any thread."""
        return quantiles(self._newest.copy())

    def oldest_age_ms(self) -> dict[str, float] | None:
        """Like :meth:`newest_age_ms`; this age is what ``freshness.ms`` limits."""
        return quantiles(self._oldest.copy())
