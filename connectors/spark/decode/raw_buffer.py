"""Undecoded records of one topic, as the task holds them: column by column."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from connect.record import TopicPartition


@dataclass(slots=True)
class Raw:
    """Records of several partitions, each in its order."""

    topic: str
    partitions: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.offsets)

    def place(self, index: int) -> tuple[TopicPartition, int]:
        """Where the record lay: its partition and offset."""
        return TopicPartition(self.topic, self.partitions[index]), self.offsets[index]

    def slice(self, part: range) -> Raw:
        """The records at these places."""
        start, stop = part.start, part.stop
        partitions, offsets = self.partitions[start:stop], self.offsets[start:stop]
        return Raw(self.topic, partitions, offsets, self.keys[start:stop], self.values[start:stop])

    def without(self, places: Collection[int]) -> Raw:
        """The records at all other places."""
        return self._chosen([at for at in range(len(self)) if at not in places])

    def without_partitions(self, gone: Collection[int]) -> Raw:
        """The records of all other partitions."""
        return self._chosen([at for at, partition in enumerate(self.partitions) if partition not in gone])

    def _chosen(self, places: Iterable[int]) -> Raw:
        chosen = list(places)
        return Raw(
            self.topic,
            [self.partitions[at] for at in chosen],
            [self.offsets[at] for at in chosen],
            [self.keys[at] for at in chosen],
            [self.values[at] for at in chosen],
        )
