"""Sets of MySQL's global transaction IDs: ``uuid:1-5:7``, with tags (MySQL 8.3 and later) ``uuid:1-5:tag:1-3``."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Final
from uuid import UUID

from connect.errors import DataError
from connectors.mysql.binlog.wire import i64, take, u64, unsigned_varint

MAX_SEQUENCE: Final = (1 << 63) - 2
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_INTERVAL = re.compile(r"([0-9]+)(?:\s*-\s*([0-9]+))?")
_Interval = tuple[int, int]
"""First and last sequence, both included."""


class GtidSet:
    """A mutable set of GTIDs. ``uuid`` and ``tag`` are in lower case; the tag of an untagged GTID is empty."""

    __slots__ = ("_intervals",)

    def __init__(self, intervals: Iterable[tuple[str, str, int, int]] = ()) -> None:
        """Creates a set of ``(uuid, tag, first, last)``."""
        self._intervals: dict[tuple[str, str], list[_Interval]] = {}
        for uuid, tag, first, last in intervals:
            self.add_interval(uuid, tag, first, last)

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Parses MySQL's text format, with any white space around its parts. Raises DataError with the part that is invalid."""
        result = cls()
        for part in text.split(","):
            if part := part.strip():
                result._add_text(part)
        return result

    def _add_text(self, text: str) -> None:
        uuid_text, *parts = (part.strip() for part in text.split(":"))
        try:
            uuid = str(UUID(uuid_text))
        except ValueError as e:
            raise DataError(f"GTID set {text!r} does not begin with a UUID") from e
        if not parts:
            raise DataError(f"GTID set {text!r} has no interval")
        tag = ""
        for part in parts:
            if match := _INTERVAL.fullmatch(part):
                first = int(match[1])
                last = int(match[2] or first)
                if first < 1 or last > MAX_SEQUENCE:
                    raise DataError(f"GTID set {text!r}: interval {part} is not between 1 and {MAX_SEQUENCE}")
                if first <= last:  # MySQL accepts an empty interval
                    self.add_interval(uuid, tag, first, last)
            elif _TAG.fullmatch(part.lower()):
                tag = part.lower()
            else:
                raise DataError(f"GTID set {text!r}: {part!r} is neither an interval nor a tag")
        if not _INTERVAL.fullmatch(parts[-1]):
            raise DataError(f"GTID set {text!r} ends with a tag; expected an interval")

    @classmethod
    def decode(cls, data: bytes, at: int, end: int) -> GtidSet:
        """Decodes MySQL's binary format, as in PREVIOUS_GTIDS. Raises IndexError or ValueError for invalid data."""
        (head,) = u64(take(data, at, 8, end)[0], 0)
        at += 8
        form = head >> 56
        if form > 1:
            raise ValueError(f"format {form} of a GTID set is unknown; expected 0 or 1")
        count = head & 0x00FF_FFFF_FFFF_FFFF if form == 0 else (head >> 8) & 0xFFFF_FFFF_FFFF
        result = cls()
        for _ in range(count):
            raw, at = take(data, at, 16, end)
            tag = b""
            if form:
                length, at = unsigned_varint(data, at, end)
                tag, at = take(data, at, length, end)
            number, at = take(data, at, 8, end)
            (intervals,) = u64(number, 0)
            content, at = take(data, at, 16 * intervals, end)
            key = (str(UUID(bytes=raw)), tag.decode("ascii"))
            previous = 0
            for offset in range(0, len(content), 16):
                first, after = i64(content, offset)[0], i64(content, offset + 8)[0]
                if first <= previous or after <= first:
                    raise ValueError(f"interval {first}-{after - 1} of a GTID set follows {previous}")
                result.add_interval(*key, first, after - 1)
                previous = after
        if at != end:
            raise ValueError(f"{end - at} bytes follow a GTID set")
        return result

    def encode(self) -> bytes:
        """Returns MySQL's binary format, as COM_BINLOG_DUMP_GTID needs it."""
        tagged = any(tag for _, tag in self._intervals)
        count = len(self._intervals)
        parts = [((1 << 56 | count << 8 | 1) if tagged else count).to_bytes(8, "little")]
        for (uuid, tag), intervals in sorted(self._intervals.items()):
            parts.append(UUID(uuid).bytes)
            if tagged:
                parts.append(bytes([len(tag) << 1]) + tag.encode("ascii"))  # the length as a variable-length integer
            parts.append(len(intervals).to_bytes(8, "little"))
            parts += (first.to_bytes(8, "little") + (last + 1).to_bytes(8, "little") for first, last in intervals)
        return b"".join(parts)

    def add(self, uuid: str, tag: str, sequence: int) -> None:
        """Adds one GTID. The next GTID of a server costs little."""
        intervals = self._intervals.get((uuid, tag))
        if intervals and intervals[-1][1] == sequence - 1:
            intervals[-1] = (intervals[-1][0], sequence)
        else:
            self.add_interval(uuid, tag, sequence, sequence)

    def add_interval(self, uuid: str, tag: str, first: int, last: int) -> None:
        """Adds the sequences from ``first`` to ``last``."""
        if not 1 <= first <= last:
            raise ValueError(f"interval {first}-{last}")
        intervals = self._intervals.setdefault((uuid, tag), [])
        begin = bisect_left(intervals, first - 1, key=_last)
        stop = bisect_right(intervals, last + 1, key=_first)
        if begin < stop:  # it touches or overlaps these
            first = min(first, intervals[begin][0])
            last = max(last, intervals[stop - 1][1])
        intervals[begin:stop] = [(first, last)]

    def contains(self, uuid: str, tag: str, sequence: int) -> bool:
        intervals = self._intervals.get((uuid, tag), [])
        index = bisect_left(intervals, sequence, key=_last)
        return index < len(intervals) and intervals[index][0] <= sequence

    def is_subset(self, other: GtidSet) -> bool:
        """Returns whether the other set has every GTID of this one."""
        for key, intervals in self._intervals.items():
            theirs = other._intervals.get(key, [])
            for first, last in intervals:
                index = bisect_left(theirs, last, key=_last)
                if index == len(theirs) or theirs[index][0] > first:
                    return False
        return True

    def union(self, other: GtidSet) -> GtidSet:
        return GtidSet([*self, *other])

    def subtract(self, other: GtidSet) -> GtidSet:
        """Returns the GTIDs that the other set does not have."""
        result = GtidSet()
        for uuid, tag, start, last in self:
            first = start
            for their_first, their_last in other._intervals.get((uuid, tag), []):
                if their_first > last:
                    break
                if their_last >= first:
                    if first < their_first:
                        result.add_interval(uuid, tag, first, their_first - 1)
                    first = their_last + 1
            if first <= last:
                result.add_interval(uuid, tag, first, last)
        return result

    def intersection(self, other: GtidSet) -> GtidSet:
        return self.subtract(self.subtract(other))

    def copy(self) -> GtidSet:
        return GtidSet(self)

    @property
    def sources(self) -> tuple[str, ...]:
        """The servers' UUIDs, sorted."""
        return tuple(sorted({uuid for uuid, _ in self._intervals}))

    def __iter__(self) -> Iterator[tuple[str, str, int, int]]:
        """Yields ``(uuid, tag, first, last)`` in order."""
        for (uuid, tag), intervals in sorted(self._intervals.items()):
            for first, last in intervals:
                yield uuid, tag, first, last

    def __bool__(self) -> bool:
        return bool(self._intervals)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GtidSet) and self._intervals == other._intervals

    def __str__(self) -> str:
        """Returns MySQL's canonical text, without its newlines: a UUID once, its untagged intervals, then its tags."""
        parts: list[str] = []
        current = None
        for (uuid, tag), intervals in sorted(self._intervals.items()):
            if uuid != current:
                parts += (",", uuid) if parts else (uuid,)
                current = uuid
            if tag:
                parts += (":", tag)
            parts += (f":{first}" if first == last else f":{first}-{last}" for first, last in intervals)
        return "".join(parts)

    def __repr__(self) -> str:
        return f"GtidSet({str(self)!r})"


def _first(interval: _Interval) -> int:
    return interval[0]


def _last(interval: _Interval) -> int:
    return interval[1]
