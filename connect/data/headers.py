"""Record headers: ordered, names may repeat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from connect.data.schema import Schema


class Header(NamedTuple):
    """One header. ``schema`` None means schemaless."""

    key: str
    schema: Schema | None
    value: Any


class Headers:
    """The headers of one record, in order. Mutable; each record has its own."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[Header] = ()) -> None:
        self._items: list[Header] = list(items)

    def add(self, key: str, value: Any, schema: Schema | None = None) -> Headers:
        """Appends a header; others of the same name stay. Returns self."""
        self._items.append(Header(key, schema, value))
        return self

    def remove(self, key: str) -> Headers:
        """Takes out every header of that name. Returns self."""
        self._items = [h for h in self._items if h.key != key]
        return self

    def last_with_name(self, key: str) -> Header | None:
        return next((h for h in reversed(self._items) if h.key == key), None)

    def all_with_name(self, key: str) -> list[Header]:
        return [h for h in self._items if h.key == key]

    def copy(self) -> Headers:
        other: Headers = object.__new__(Headers)  # without a call of __init__: it is made for every record that changes
        other._items = self._items[:]
        return other

    def __iter__(self) -> Iterator[Header]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Headers):
            return NotImplemented
        return self._items == other._items

    def __hash__(self) -> int:
        return hash(tuple(h.key for h in self._items))

    def __repr__(self) -> str:
        return f"Headers({self._items!r})"
