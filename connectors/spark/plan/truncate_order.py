"""Orders a truncate against rows of other partitions, which may be read before or after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from connectors.spark.decode.change_batch import PARTITION_ID, POSITION, ChangeBatch
from connectors.spark.plan.deduplicate import TOPIC_ID, DeduplicatedChanges, drop_truncated

_MAX_ROWS = 200_000


class TruncateOrder:
    """What is known of the order of one table's changes, by their positions in the source.

    Kafka orders records only within a partition. The keys of the latest rows are kept in memory, as far back as partitions
    usually drift apart; after a restart, a truncate removes all rows that are in the table.
    """

    def __init__(self) -> None:
        self._truncated_at: str | None = None
        self._recent: deque[pa.Table] = deque()
        self._rows = 0
        self._partitions: set[tuple[str, int]] = set()

    @property
    def has_truncated(self) -> bool:
        """Whether there was a truncate, so that :meth:`before` may drop changes."""
        return self._truncated_at is not None

    def before(self, changes: ChangeBatch) -> ChangeBatch:
        """The changes without those from before the last truncate, which arrive late."""
        return changes if self._truncated_at is None else drop_truncated(changes, self._truncated_at)

    def survivors(self, changes: DeduplicatedChanges, keys: Sequence[str]) -> pa.Table | None:
        """Keys of committed rows that are newer than the truncate of these changes."""
        position = changes.truncate.position if changes.truncate is not None else None
        if position is None or not self._recent:
            return None
        recent = pa.concat_tables(self._recent)
        return recent.filter(pc.greater(recent[POSITION], position)).select(list(keys))

    def committed(self, changes: DeduplicatedChanges, keys: Sequence[str]) -> None:
        """Notes changes that are now in the table."""
        if changes.truncate is not None and changes.truncate.position is not None:
            self._truncated_at = max(self._truncated_at or "", changes.truncate.position)
        meta = changes.meta
        places = meta.group_by([TOPIC_ID, PARTITION_ID], use_threads=False).aggregate([]).to_pylist()
        self._partitions |= {(place[TOPIC_ID], place[PARTITION_ID]) for place in places}
        if len(self._partitions) < 2 or meta[POSITION].null_count == len(meta):
            return  # in one partition, a truncate is after everything that was read before it
        rows = changes.rows.select(list(keys)).append_column(POSITION, meta[POSITION])
        if self._recent and self._recent[0].schema != rows.schema:
            self._recent.clear()
            self._rows = 0
        self._recent.append(rows)
        self._rows += rows.num_rows
        while self._rows > _MAX_ROWS:
            self._rows -= self._recent.popleft().num_rows
