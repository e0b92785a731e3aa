"""Measures latency: from the commit in the source database to the table commit."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from connectors.spark.decode.change_batch import OPERATION, SOURCE_MS, ChangeBatch
from connectors.spark.delivery.timing import quantiles

_MAX_AGES = 100_000
_LIVE = pa.array(["c", "u", "d"])


class Latency:
    """Latencies of the latest changes in ms, of all tables. Snapshot rows do not count: when they were written is unknown.

    Callable from any thread.
    """

    def __init__(self) -> None:
        self._ages: deque[float] = deque(maxlen=_MAX_AGES)

    def observe(self, changes: Sequence[ChangeBatch], visible_ms: float) -> float | None:
        """Records changes that became visible at ``visible_ms`` (ms since 1970). Returns the age of the oldest one in ms; None
        without changes."""
        oldest_ms: float | None = None
        for part in changes:
            live = part.meta.filter(pc.fill_null(pc.is_in(part.meta[OPERATION], _LIVE), False))
            committed = live[SOURCE_MS].drop_null()
            if len(committed):
                ages = pc.subtract(pa.scalar(visible_ms, pa.float64()), committed.cast(pa.float64())).to_pylist()
                self._ages.extend(ages)
                oldest_ms = max(ages) if oldest_ms is None else max(oldest_ms, *ages)
        return oldest_ms

    def quantiles(self) -> dict[str, float] | None:
        """Returns ``p50`` and ``p99`` in ms; None before the first change."""
        return quantiles(self._ages.copy())
