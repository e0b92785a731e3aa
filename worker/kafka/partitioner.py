"""The partition of a key, chosen like Java's producers do.

Compacted topics require that a key is always in the same partition, whoever writes it. librdkafka's default (CRC32) differs.
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C

JAVA_PARTITIONER = "murmur2_random"
"""librdkafka's name for the same choice, for ``partitioner.class`` of producers that let the client choose."""


def partition_of(key: bytes, partitions: int) -> int:
    """Returns the partition of a record with this key (``BuiltInPartitioner``)."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Returns the 32 bits of ``org.apache.kafka.common.utils.Utils.murmur2``, unsigned."""
    size = len(data)
    h = (_SEED ^ size) & _MASK
    whole = size & ~3
    for at in range(0, whole, 4):
        k = (int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER) & _MASK
        k ^= k >> 24
        h = ((h * _MULTIPLIER) & _MASK) ^ ((k * _MULTIPLIER) & _MASK)
    if whole < size:
        h ^= int.from_bytes(data[whole:], "little")
        h = (h * _MULTIPLIER) & _MASK
    h ^= h >> 13
    h = (h * _MULTIPLIER) & _MASK
    return h ^ (h >> 15)
