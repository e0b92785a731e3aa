"""Which dead letters of one partition were replayed: an offset, below which all were, and ranges above it.

Both are stored as the committed offset of a consumer group and its metadata, so that Kafka can commit them in the transaction
that writes the records (exactly-once).
"""

from __future__ import annotations

import base64
import bisect
from collections.abc import Iterator, Sequence
from typing import Final

from connect.errors import ConnectError

_FORM: Final = "sluice1:"
MAX_METADATA_BYTES: Final = 4000
"""Brokers accept 4096 bytes by default (``offset.metadata.max.bytes``)."""


def replay_group(connector: str) -> str:
    """Returns the consumer group whose offsets say what was replayed."""
    return f"connect-dlq-replay-{connector}"


class ReplayPosition:
    """The replayed offsets of one partition. Not thread-safe."""

    def __init__(self, base: int = 0, ranges: Sequence[tuple[int, int]] = ()) -> None:
        """``ranges`` are above ``base``, sorted, and include both ends."""
        self.base = base
        self._starts = [first for first, _ in ranges]
        self._ends = [last for _, last in ranges]

    def __contains__(self, offset: int) -> bool:
        at = bisect.bisect_right(self._starts, offset) - 1
        return offset < self.base or (at >= 0 and offset <= self._ends[at])

    def add(self, first: int, last: int) -> None:
        """Adds the offsets from ``first`` to ``last``."""
        if last < first:
            return
        low = bisect.bisect_left(self._ends, first - 1)
        high = bisect.bisect_right(self._starts, last + 1)
        if low < high:
            first, last = min(first, self._starts[low]), max(last, self._ends[high - 1])
        self._starts[low:high], self._ends[low:high] = [first], [last]
        while self._starts and self._starts[0] <= self.base:
            self.base = max(self.base, self._ends.pop(0) + 1)
            self._starts.pop(0)

    def count(self, first: int, end: int) -> int:
        """Returns how many offsets from ``first`` to below ``end`` are replayed."""
        below = max(0, min(self.base, end) - first)
        ranges = zip(self._starts, self._ends, strict=True)
        return below + sum(max(0, min(last + 1, end) - max(start, first)) for start, last in ranges)

    def encode(self) -> str:
        """Returns the metadata. Raises ConnectError if there are more ranges than fit."""
        numbers, before = bytearray(), self.base
        for first, last in zip(self._starts, self._ends, strict=True):
            numbers += _varint(first - before) + _varint(last - first)
            before = last
        text = _FORM + base64.b64encode(bytes(numbers)).decode() if numbers else ""
        if len(text) > MAX_METADATA_BYTES:
            raise ConnectError(
                f"{len(self._starts)} separate ranges of dead letters were replayed, more than Kafka can store for a consumer "
                f"group. Replay those in between, from offset {self.base} on, before others"
            )
        return text

    @classmethod
    def decode(cls, base: int, metadata: str | None) -> ReplayPosition:
        """Returns the position of a committed offset. Foreign metadata, as of an offset that a person has set, has no ranges."""
        if not metadata or not metadata.startswith(_FORM):
            return cls(base)
        try:
            numbers = iter(list(_varints(base64.b64decode(metadata.removeprefix(_FORM), validate=True))))
        except ValueError as e:
            raise ConnectError(f"The metadata of a replay position cannot be read: {e}. Reset the group to replay again") from e
        ranges, before = [], base
        for gap in numbers:
            first = before + gap
            before = first + next(numbers, 0)
            ranges.append((first, before))
        return cls(base, ranges)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _varints(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            yield number
            number = shift = 0
