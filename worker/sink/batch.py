"""The records that one call of a sink task's ``put`` is given."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from connect.record import RawBatch, SinkRecord, TopicPartition

_SHOWN = 3
"""Partitions that an error names."""


@dataclass(slots=True)
class PutBatch:
    """Records to be put, and where each partition stands when they are."""

    records: list[SinkRecord]
    raw: list[RawBatch]
    ends: dict[TopicPartition, int]

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        gone = set(partitions)
        self.records = [r for r in self.records if (r.original_topic, r.original_partition) not in gone]
        self.raw = [b for b in self.raw if (b.topic, b.partition) not in gone]
        for place in gone:
            self.ends.pop(place, None)

    def describe(self) -> str:
        """Which records these are, for errors: where they lie, not what they hold."""
        size = len(self.records) + sum(map(len, self.raw))
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
