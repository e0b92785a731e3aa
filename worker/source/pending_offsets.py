"""Which source offsets are to be stored next."""

from __future__ import annotations

from collections.abc import Sequence

from connect.record import SourceRecord
from worker.storage.offset_codec import PartitionId, partition_id
from worker.storage.offset_store import OffsetPair


class PendingOffsets:
    """The latest offset of each source partition among records that were produced, and not stored yet.

    Tracked by the batch: a source shares one partition object between its records, so identity tells most of it.
    """

    def __init__(self) -> None:
        self._latest: dict[PartitionId, OffsetPair] = {}

    def __bool__(self) -> bool:
        return bool(self._latest)

    def track(self, records: Sequence[SourceRecord]) -> None:
        """These records, in this order, were handed to the producer (or dropped by a transformation)."""
        seen: set[int] = set()
        ids: set[PartitionId] = set()
        for record in reversed(records):
            partition = record.source_partition
            if id(partition) in seen:
                continue
            seen.add(id(partition))
            if partition is None and record.source_offset is None:
                continue
            key = partition_id(partition)
            # Two objects can be the same partition: the one seen first from the end is the latest.
            if key not in ids:
                ids.add(key)
                self._latest[key] = (partition, record.source_offset)

    def take(self) -> list[OffsetPair]:
        """All of them; tracking goes on from nothing."""
        taken = list(self._latest.values())
        self._latest = {}
        return taken

    def give_back(self, offsets: Sequence[OffsetPair]) -> None:
        """They could not be stored. What was tracked since is newer and stays."""
        for pair in offsets:
            self._latest.setdefault(partition_id(pair[0]), pair)
