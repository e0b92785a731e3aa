"""How old changes are when they become visible: from the commit in the source to the commit of the table."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from connectors.spark.decode.change_batch import OPERATION, SOURCE_MS, Changes

_KEPT = 100_000
_LIVE = pa.array(["c", "u", "d"])


class Latency:
    """The latest changes' ages in ms. Rows of a snapshot are not changes: when they were written nobody knows."""

    def __init__(self) -> None:
        self._ages: deque[float] = deque(maxlen=_KEPT)

    def observe(self, changes: Sequence[Changes], visible_ms: float) -> None:
        """These changes are visible since ``visible_ms`` (ms since 1970)."""
        for part in changes:
            live = part.meta.filter(pc.fill_null(pc.is_in(part.meta[OPERATION], _LIVE), False))
            committed = live[SOURCE_MS].drop_null()
            if len(committed):
                self._ages.extend(pc.subtract(pa.scalar(visible_ms, pa.float64()), committed.cast(pa.float64())).to_pylist())

    def quantiles(self) -> dict[str, float] | None:
        """``p50`` and ``p99`` in ms; None before the first change. May be called from any thread."""
        ages = sorted(self._ages.copy())
        if not ages:
            return None
        return {"p50": ages[len(ages) // 2], "p99": ages[len(ages) * 99 // 100]}
