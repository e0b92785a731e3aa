"""The offsets of a task's partitions: how far they were received, and how far all tables have them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

from connect.record import TopicPartition


class PartitionOffsets:
    """A holder is a buffer or a commit that has records which are not in their table yet; it is any hashable value.

    Used on the task's thread, except :meth:`lag`.
    """

    def __init__(self) -> None:
        self._positions: dict[TopicPartition, int] = {}
        self._held: dict[TopicPartition, dict[Hashable, int]] = {}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """The partition continues from this offset; its tables or holders have all records below."""
        self._positions[partition] = offset

    def position(self, partition: TopicPartition) -> int | None:
        """Returns the offset after the last received record; None before the first."""
        return self._positions.get(partition)

    def positions(self) -> dict[TopicPartition, int]:
        return dict(self._positions)

    def receive(self, holder: Hashable, partition: TopicPartition, first: int, end: int) -> None:
        """The holder takes records from ``first`` to below ``end``."""
        self._positions[partition] = end
        self.hold(holder, {partition: first})

    def hold(self, holder: Hashable, firsts: Mapping[TopicPartition, int]) -> None:
        """The holder has records that begin at these offsets."""
        for partition, first in firsts.items():
            held = self._held.setdefault(partition, {})
            held[holder] = min(first, held.get(holder, first))

    def release(self, holder: Hashable) -> None:
        """The holder's records are in their tables, or other holders have them."""
        for held in self._held.values():
            held.pop(holder, None)

    def committed(self, partition: TopicPartition) -> int | None:
        """Promise 2: the offset up to which every table has its records; None before the first record."""
        position = self._positions.get(partition)
        held = list(self._held.get(partition, {}).values())
        return min(held) if held and position is not None else position

    def lag(self) -> dict[TopicPartition, int]:
        """Returns the number of received offsets that are not in all tables. Callable from any thread."""
        found = {}
        for partition, position in list(self._positions.items()):
            committed = self.committed(partition)
            found[partition] = 0 if committed is None else max(0, position - committed)
        return found

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """The partitions have another owner."""
        for partition in partitions:
            self._positions.pop(partition, None)
            self._held.pop(partition, None)
