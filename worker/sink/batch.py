"""The records of one call of a sink task's ``put``."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from connect.record import RawBatch, SinkRecord, TopicPartition
from connect.tracing import SpanLink, join_links

_SHOWN = 3
"""The number of partitions that an error names."""


@dataclass(slots=True)
class PutBatch:
    """Records to put, and the offset of each partition after them."""

    records: list[SinkRecord]
    raw: list[RawBatch]
    ends: dict[TopicPartition, int]
    links: tuple[SpanLink, ...] = ()
    """The spans that have written the records, as far as their headers name them; of traced tasks only."""

    def __len__(self) -> int:
        """Returns the number of records."""
        return len(self.records) + sum(map(len, self.raw))

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Removes the records of these partitions."""
        dropped = set(partitions)
        self.records = [r for r in self.records if (r.original_topic, r.original_partition) not in dropped]
        self.raw = [b for b in self.raw if (b.topic, b.partition) not in dropped]
        for partition in dropped:
            self.ends.pop(partition, None)

    def describe(self) -> str:
        """Returns the number and offsets of the records, for errors. Contents may be secret."""
        size = len(self)
        found: dict[TopicPartition, list[int]] = {}
        for record in self.records:
            found.setdefault(TopicPartition(record.original_topic, record.original_partition), []).append(record.offset)
        for batch in self.raw:
            found.setdefault(TopicPartition(batch.topic, batch.partition), []).extend(batch.offsets)
        shown = [f"topic {p.topic}, partition {p.partition}, offsets {min(o)} to {max(o)}" for p, o in sorted(found.items())]
        more = "" if len(shown) <= _SHOWN else f" and {len(shown) - _SHOWN} more partitions"
        return ("1 record" if size == 1 else f"{size} records") + (f": {'; '.join(shown[:_SHOWN])}{more}" if shown else "")

    def add(self, other: PutBatch) -> None:
        self.records += other.records
        self.raw += other.raw
        self.ends.update(other.ends)
        self.links = join_links(self.links, other.links)
