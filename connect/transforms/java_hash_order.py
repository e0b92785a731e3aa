"""The order in which a Java HashMap or HashSet of texts is walked.

It decides which of several bad fields an error names, and which of two renames onto one name counts.
"""

from __future__ import annotations

from collections.abc import Sequence


def hash_code(text: str) -> int:
    """String.hashCode, unsigned."""
    units = text.encode("utf-16-le", "surrogatepass")
    code = 0
    for i in range(0, len(units), 2):
        code = (31 * code + units[i] + (units[i + 1] << 8)) & 0xFFFFFFFF
    return code


def hash_map_order(keys: Sequence[str]) -> list[str]:
    """Keys (none twice) put one by one into a new HashMap, in the order it gives them back."""
    buckets = 16
    while len(keys) > buckets * 3 // 4:
        buckets *= 2
    return _walked(keys, buckets)


def hash_set_order(keys: Sequence[str]) -> list[str]:
    """Keys (none twice) of a HashSet made from a collection."""
    buckets = 16
    while buckets < int(len(keys) / 0.75) + 1:
        buckets *= 2
    return _walked(keys, buckets)


def _walked(keys: Sequence[str], buckets: int) -> list[str]:
    def bucket(key: str) -> int:
        code = hash_code(key)
        return (code ^ (code >> 16)) & (buckets - 1)

    return sorted(keys, key=bucket)
