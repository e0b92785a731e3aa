"""The source offsets to store with the next flush."""

from __future__ import annotations

from collections.abc import Sequence

from connect.record import SourceRecord
from connect.text_records import LazyRecords
from worker.storage.offset_codec import PartitionId, partition_id
from worker.storage.offset_store import OffsetPair


class PendingOffsets:
    """The latest offset of each source partition among records that were sent and whose offsets are not stored yet.

    Tracks whole batches: a source's records share one partition object, so comparing identities is usually enough.
    """

    def __init__(self) -> None:
        self._latest: dict[PartitionId, OffsetPair] = {}

    def __bool__(self) -> bool:
        return bool(self._latest)

    def track(self, records: Sequence[SourceRecord]) -> None:
        """Adds the offsets of records that were passed to the producer, in this order, or dropped by a transformation."""
        if isinstance(records, LazyRecords):
            self._latest[partition_id(records.source_partition)] = (records.source_partition, records.source_offset)
            return
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
            # Two objects can be the same partition: the last record has the latest offset.
            if key not in ids:
                ids.add(key)
                self._latest[key] = (partition, record.source_offset)

    def replace(self, offsets: Sequence[OffsetPair]) -> None:
        """Adds offsets that the task chose; each takes the place of the pending one of its source partition."""
        for pair in offsets:
            self._latest[partition_id(pair[0])] = pair

    @property
    def pairs(self) -> list[OffsetPair]:
        return list(self._latest.values())

    def take(self) -> list[OffsetPair]:
        """Returns all pending offsets and removes them."""
        taken = list(self._latest.values())
        self._latest = {}
        return taken

    def give_back(self, offsets: Sequence[OffsetPair]) -> None:
        """Adds offsets that could not be stored. Those tracked since are newer and take precedence."""
        for pair in offsets:
            self._latest.setdefault(partition_id(pair[0]), pair)
