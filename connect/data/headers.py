"""Record headers: an ordered list; names may repeat."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from connect.data.types import Schema


class Header(NamedTuple):
    """One header. ``schema`` is None for a schemaless value."""

    key: str
    schema: Schema | None
    value: Any

    def renamed(self, key: str) -> Header:
        """Returns this header with another name."""
        return Header(key, self.schema, self.value)

    def with_value(self, schema: Schema | None, value: Any) -> Header:
        """Returns this header with another value."""
        return Header(self.key, schema, value)


HeaderTransform = Callable[[Header], Header | None]
"""Returns the replacement of a header; None removes it."""


class Headers:
    """The headers of one record, in order. Mutable; each record has its own. Methods that change them return self for
    chaining."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[Header] = ()) -> None:
        self._items: list[Header] = list(items)

    def add(self, key: str, value: Any, schema: Schema | None = None) -> Headers:
        """Appends a header; others of the same name remain. The value is checked against its schema only when it is written."""
        self._items.append(Header(key, schema, value))
        return self

    def with_added(self, headers: Iterable[Header]) -> Headers:
        """Returns a copy with these headers appended."""
        other = self.copy()
        other._items += headers
        return other

    def remove(self, key: str) -> Headers:
        """Removes every header of that name."""
        self._items = [h for h in self._items if h.key != key]
        return self

    def clear(self) -> Headers:
        """Removes every header."""
        self._items = []
        return self

    def retain_latest(self, key: str | None = None) -> Headers:
        """Removes all but the last header of that name, or of every name."""
        seen: set[str] = set()
        kept = []
        for header in reversed(self._items):
            if header.key in seen and key in (None, header.key):
                continue
            seen.add(header.key)
            kept.append(header)
        self._items = kept[::-1]
        return self

    def apply(self, transform: HeaderTransform, key: str | None = None) -> Headers:
        """Replaces each header, or each of that name, by the function's result. If the function raises, nothing changes."""
        changed = (transform(h) if key in (None, h.key) else h for h in self._items)
        self._items = [header for header in changed if header is not None]
        return self

    def last_with_name(self, key: str) -> Header | None:
        """Returns the last header of that name, or None."""
        return next((h for h in reversed(self._items) if h.key == key), None)

    def all_with_name(self, key: str) -> list[Header]:
        """Returns every header of that name."""
        return [h for h in self._items if h.key == key]

    def copy(self) -> Headers:
        """Returns a copy."""
        return Headers(self._items)

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
