"""The order in which Java's hash maps give their keys.

Some answers of Apache Connect show it: the configs of a converter, client overrides, and a map that is printed in a message.
Clients compare such answers as lists and texts, so the order is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_LOAD_FACTOR = 0.75


def string_hash(text: str) -> int:
    """``String.hashCode`` as an unsigned number, over UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value


def hash_order(keys: Iterable[str], *, copied: bool = False) -> list[str]:
    """The keys as a HashMap lists them that they were put into one by one, or with ``copied`` by its copy constructor."""
    listed = list(dict.fromkeys(keys))
    capacity = 1 if copied else 16
    while (capacity < len(listed) / _LOAD_FACTOR + 1) if copied else (len(listed) > capacity * _LOAD_FACTOR):
        capacity *= 2

    def bucket(key: str) -> int:
        value = string_hash(key)
        return (value ^ (value >> 16)) & (capacity - 1)

    return sorted(listed, key=bucket)


def describe_map(values: Mapping[str, str | None]) -> str:
    """A copied HashMap as Java prints it: ``{name=c, topic=t}`` (recording create-missing-class)."""
    shown = (f"{key}={'null' if values[key] is None else values[key]}" for key in hash_order(values, copied=True))
    return "{" + ", ".join(shown) + "}"
