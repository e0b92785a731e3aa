"""Buffer for undecoded records of one topic, stored by column."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from connect.record import RawBatch, TopicPartition

RawHeaders = list[tuple[str, bytes | None]] | None


@dataclass(slots=True)
class RawBuffer:
    """Undecoded records of several partitions, in order within each partition."""

    topic: str
    partitions: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[RawHeaders] | None = None
    """None when no record has any."""

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, batch: RawBatch) -> None:
        """Appends records."""
        if batch.headers is not None and self.headers is None:
            self.headers = [None] * len(self)
        if self.headers is not None:
            self.headers += [None] * len(batch) if batch.headers is None else batch.headers
        self.partitions += [batch.partition] * len(batch)
        self.offsets += batch.offsets
        self.keys += batch.keys
        self.values += batch.values

    def location(self, index: int) -> tuple[TopicPartition, int]:
        """The record's partition and offset."""
        return TopicPartition(self.topic, self.partitions[index]), self.offsets[index]

    def describe(self, index: int) -> str:
        """Names the record for messages."""
        return f"topic {self.topic}, partition {self.partitions[index]}, offset {self.offsets[index]}"

    def places(self, positions: Sequence[int]) -> RawBuffer:
        """Only partitions and offsets of the records at these positions."""
        return RawBuffer(self.topic, [self.partitions[at] for at in positions], [self.offsets[at] for at in positions])

    def slice(self, part: range) -> RawBuffer:
        """The records at these positions."""
        start, stop = part.start, part.stop
        partitions, offsets = self.partitions[start:stop], self.offsets[start:stop]
        headers = self.headers and self.headers[start:stop]
        return RawBuffer(self.topic, partitions, offsets, self.keys[start:stop], self.values[start:stop], headers)

    def without_positions(self, positions: Collection[int]) -> RawBuffer:
        """The records at all other positions."""
        return self.select([at for at in range(len(self)) if at not in positions])

    def without_partitions(self, removed: Collection[int]) -> RawBuffer:
        """The records of all other partitions."""
        return self.select([at for at, partition in enumerate(self.partitions) if partition not in removed])

    def select(self, positions: Iterable[int]) -> RawBuffer:
        """The records at these positions, in this order."""
        chosen = list(positions)
        return RawBuffer(
            self.topic,
            [self.partitions[at] for at in chosen],
            [self.offsets[at] for at in chosen],
            [self.keys[at] for at in chosen],
            [self.values[at] for at in chosen],
            self.headers and [self.headers[at] for at in chosen],
        )
