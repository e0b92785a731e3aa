"""Reproduces the iteration order of Java's hash maps and hash sets of strings.

Apache's answers depend on it: which of several bad fields an error names, which of two renames to one name counts, the configs of
a converter in a validation response, a map printed in a message. Clients compare such answers, so the order is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def hash_code(text: str) -> int:
    """``String.hashCode`` of the UTF-16 units, as an unsigned number."""
    units = text.encode("utf-16-le", "surrogatepass")
    code = 0
    for i in range(0, len(units), 2):
        code = (31 * code + units[i] + (units[i + 1] << 8)) & 0xFFFFFFFF
    return code


def hash_map_order(keys: Iterable[str]) -> list[str]:
    """Returns the keys in the order of a new HashMap into which they were put one by one."""
    listed = list(dict.fromkeys(keys))
    buckets = 16
    while len(listed) > buckets * 3 // 4:
        buckets *= 2
    return _walked(listed, buckets)


def copied_map_order(keys: Iterable[str]) -> list[str]:
    """Returns the keys in the order of a HashMap that was copied from another map."""
    return _made_at_once(keys, 1)


def computed_map_order(put: Iterable[str], computed: Iterable[str]) -> list[str]:
    """Returns the keys in the order of a new HashMap into which some were put and others added with ``computeIfAbsent``.

    The latter go to the front of their bucket, and the map grows one key later.
    """
    listed = list(dict.fromkeys(put))
    added = [key for key in dict.fromkeys(computed) if key not in listed]
    buckets = 16
    while len(listed) > buckets * 3 // 4 or (added and len(listed) + len(added) - 1 > buckets * 3 // 4):
        buckets *= 2
    return _walked([*reversed(added), *listed], buckets)


def hash_set_order(keys: Iterable[str]) -> list[str]:
    """Returns the keys in the order of a HashSet that was copied from a collection."""
    return _made_at_once(keys, 16)


def describe_map(values: Mapping[str, str | None]) -> str:
    """Formats a copied HashMap like Java: ``{name=c, topic=t}`` (recording create-missing-class)."""
    shown = (f"{key}={'null' if values[key] is None else values[key]}" for key in copied_map_order(values))
    return "{" + ", ".join(shown) + "}"


def _made_at_once(keys: Iterable[str], buckets: int) -> list[str]:
    listed = list(dict.fromkeys(keys))
    while buckets < int(len(listed) / 0.75) + 1:
        buckets *= 2
    return _walked(listed, buckets)


def _walked(keys: list[str], buckets: int) -> list[str]:
    def bucket(key: str) -> int:
        code = hash_code(key)
        return (code ^ (code >> 16)) & (buckets - 1)

    return sorted(keys, key=bucket)
