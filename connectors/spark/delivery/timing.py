"""When a table's commit starts, and how old changes are when they become visible: since they arrived, and since the source
committed them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from connect.metrics import AGES, Histogram
from connectors.spark.decode.change_batch import OPERATION, SOURCE_MS, ChangeBatch

_DURATIONS = 8
_MARGIN = 1.25
_MAX_AGES = 1_000
_MAX_LATENCIES = 100_000
_LIVE = pa.array(["c", "u", "d"])


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


class Latency:
    """Latencies of the latest changes in ms, of all tables. Snapshot rows do not count: when they were written is unknown.

    Callable from any thread.
    """

    def __init__(self) -> None:
        self._ages: deque[float] = deque(maxlen=_MAX_LATENCIES)

    def observe(self, changes: Sequence[ChangeBatch], visible_ms: float) -> float | None:
        """Records changes that became visible at ``visible_ms`` (ms since 1970). Returns the age of the oldest one in ms; None
        without changes."""
        oldest_ms: float | None = None
        for part in changes:
            live = part.meta.filter(pc.fill_null(pc.is_in(part.meta[OPERATION], _LIVE), False))
            committed = live[SOURCE_MS].drop_null()
            if len(committed):
                ages = pc.subtract(pa.scalar(visible_ms, pa.float64()), committed.cast(pa.float64(), safe=False)).to_pylist()
                self._ages.extend(ages)
                oldest_ms = max(ages) if oldest_ms is None else max(oldest_ms, *ages)
        return oldest_ms

    def values(self) -> list[float]:
        return list(self._ages.copy())
