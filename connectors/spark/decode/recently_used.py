"""A cache with a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")

MAX_SCHEMAS = 1000
"""How many schemas of a topic's keys or values are remembered, and how many layouts of them."""


class RecentlyUsed(Generic[_K, _V]):
    """The values that were used last, at most ``limit`` of them. Not thread-safe."""

    def __init__(self, limit: int = MAX_SCHEMAS) -> None:
        self._limit = limit
        self._values: dict[_K, _V] = {}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: _K, make: Callable[[], _V]) -> _V:
        """Returns the value of a key, which is made if it is not there."""
        value = self._values.pop(key) if key in self._values else make()
        if len(self._values) >= self._limit:
            del self._values[next(iter(self._values))]
        self._values[key] = value
        return value

    def drop(self, is_dropped: Callable[[_K], bool]) -> None:
        """Drops the values of these keys."""
        self._values = {key: value for key, value in self._values.items() if not is_dropped(key)}

    def newest_first(self) -> Iterator[_V]:
        """Yields the values; one that was used last comes first."""
        return reversed(self._values.values())
