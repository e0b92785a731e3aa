"""The offsets of a request in the order of Apache's ``HashMap`` of partitions.

The last offset of a duplicate partition counts, before anything is checked; and the map's order decides which of several errors
is returned.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from connect.java.hash_order import hash_code
from connect.record import TopicPartition
from worker.model import OffsetEntry
from worker.storage.offset_codec import encode_key

Item = TypeVar("Item")

_WORD = 0xFFFFFFFF


def as_java_map(offsets: Sequence[OffsetEntry]) -> list[OffsetEntry]:
    """Returns the entries without duplicates, in the map's order."""
    entries: dict[Any, OffsetEntry] = {}
    for entry in offsets:
        key = _equal_in_java(entry.partition)
        first = entries.get(key, entry)
        entries[key] = OffsetEntry(first.partition, entry.offset)
    return map_order(entries.values(), lambda entry: java_hash(entry.partition))


def map_order(items: Iterable[Item], code_of: Callable[[Item], int], capacity: int = 16) -> list[Item]:
    """Returns distinct items in the iteration order of a ``HashMap`` with this initial capacity, filled in the given order."""
    listed = list(items)
    buckets = 1
    while buckets < capacity or len(listed) > buckets * 3 // 4:
        buckets *= 2

    def bucket(item: Item) -> int:
        code = code_of(item)
        return (code ^ (code >> 16)) & (buckets - 1)

    return sorted(listed, key=bucket)


def java_hash(value: Any) -> int:
    """Returns ``hashCode`` of a JSON value, as an unsigned number."""
    match value:
        case None:
            return 0
        case bool():
            return 1231 if value else 1237
        case str():
            return hash_code(value)
        case int() if -(1 << 31) <= value < 1 << 31:
            return value & _WORD
        case int() if -(1 << 63) <= value < 1 << 63:
            return long_hash(value)
        case int():
            code, size = 0, abs(value)
            for shift in range((size.bit_length() - 1) // 32 * 32, -1, -32):
                code = (31 * code + (size >> shift & _WORD)) & _WORD
            return code if value > 0 else -code & _WORD
        case float():
            return _folded(struct.unpack(">Q", struct.pack(">d", value))[0])
        case dict():
            return sum(hash_code(key) ^ java_hash(member) for key, member in value.items()) & _WORD
        case _:
            code = 1
            for member in value:
                code = (31 * code + java_hash(member)) & _WORD
            return code


def long_hash(value: int) -> int:
    """Returns ``Long.hashCode``, as an unsigned number."""
    return _folded(value & 0xFFFFFFFFFFFFFFFF)


def _folded(bits: int) -> int:
    return (bits ^ (bits >> 32)) & _WORD


def _equal_in_java(value: Any) -> Any:
    """Returns a key that is equal for values that are equal in Java, where 1, 1.0, and true differ."""
    if isinstance(value, Mapping):
        return frozenset((key, _equal_in_java(member)) for key, member in value.items())
    if isinstance(value, list):
        return tuple(_equal_in_java(member) for member in value)
    return value.__class__, value


def sink_order(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Sorts the partitions of a consumer group by ``TopicPartition.hashCode``; within a bucket, by topic and number."""
    return map_order(sorted(partitions), lambda tp: 31 * (31 + tp.partition) + hash_code(tp.topic) & _WORD)


def source_order(connector: str, entries: Sequence[OffsetEntry]) -> list[OffsetEntry]:
    """Sorts a connector's stored offsets by their partitions.

    Apache looks them up by the bytes of their keys, and then collects them in a map with that initial capacity.
    """

    def key_hash(entry: OffsetEntry) -> int:
        return _buffer_hash(encode_key(connector, entry.partition))

    looked_up = map_order(map_order(entries, key_hash), key_hash, int(len(entries) / 0.75 + 1))
    return map_order(looked_up, lambda entry: _stored_hash(entry.partition), len(entries))


def _buffer_hash(data: bytes) -> int:
    """``ByteBuffer.hashCode``: from the last byte to the first, each with its sign."""
    code = 1
    for byte in reversed(data):
        code = (31 * code + (byte - 256 if byte > 127 else byte)) & _WORD
    return code


def _stored_hash(partition: Mapping[str, Any] | None) -> int:
    """``hashCode`` of a partition that was read back: whole numbers are longs then."""
    if partition is None:
        return 0
    codes = (hash_code(key) ^ (long_hash(one) if type(one) is int else java_hash(one)) for key, one in partition.items())
    return sum(codes) & _WORD
