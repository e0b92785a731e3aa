"""The order in which Java's hash maps and hash sets of texts are walked.

Some answers of Apache's show it: which of several bad fields an error names, which of two renames onto one name counts, the
configs of a converter in an answer of validation, a map that is printed in a message. Clients compare such answers as lists and
texts, so the order is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def hash_code(text: str) -> int:
    """``String.hashCode`` as an unsigned number, over UTF-16 units."""
    units = text.encode("utf-16-le", "surrogatepass")
    code = 0
    for i in range(0, len(units), 2):
        code = (31 * code + units[i] + (units[i + 1] << 8)) & 0xFFFFFFFF
    return code


def hash_map_order(keys: Iterable[str]) -> list[str]:
    """The keys as a new HashMap gives them back that they were put into one by one."""
    listed = list(dict.fromkeys(keys))
    buckets = 16
    while len(listed) > buckets * 3 // 4:
        buckets *= 2
    return _walked(listed, buckets)


def copied_map_order(keys: Iterable[str]) -> list[str]:
    """The keys of a HashMap that was made from another map."""
    return _made_at_once(keys, 1)


def computed_map_order(put: Iterable[str], computed: Iterable[str]) -> list[str]:
    """The keys of a new HashMap that were put into it one by one, and of those that ``computeIfAbsent`` added then.

    The latter come before whatever is in their bucket, and make the map grow one key later.
    """
    listed = list(dict.fromkeys(put))
    added = [key for key in dict.fromkeys(computed) if key not in listed]
    buckets = 16
    while len(listed) > buckets * 3 // 4 or (added and len(listed) + len(added) - 1 > buckets * 3 // 4):
        buckets *= 2
    return _walked([*reversed(added), *listed], buckets)


def hash_set_order(keys: Iterable[str]) -> list[str]:
    """The keys of a HashSet that was made from a collection."""
    return _made_at_once(keys, 16)


def describe_map(values: Mapping[str, str | None]) -> str:
    """A copied HashMap as Java prints it: ``{name=c, topic=t}`` (recording create-missing-class)."""
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
