"""Which partition a key belongs to, as Java's producers choose it.

Compacted topics live from each key being in one partition, whoever writes it. librdkafka's own default (CRC32) chooses otherwise.
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C

JAVA_PARTITIONER = "murmur2_random"
"""librdkafka's name for the same choice: the setting ``partitioner.class`` of producers that leave it to the client."""


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a record with this key in a topic of so many (``BuiltInPartitioner``)."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """The 32 bits of ``org.apache.kafka.common.utils.Utils.murmur2``, unsigned."""
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
