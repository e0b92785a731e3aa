"""The order in which REST shows offsets: the iteration order of the hash maps in which Apache's workers collect them.

Clients compare the list with its order. Among offsets in the same bucket of the last map, the previous map decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from connect.java.hash_order import hash_code
from connect.record import TopicPartition
from worker.model import OffsetEntry
from worker.operations.offsets.request_map import java_hash, long_hash, map_order
from worker.storage.offset_codec import encode_key

_WORD = 0xFFFFFFFF


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
