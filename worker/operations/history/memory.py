"""History in memory: for standalone workers, whose connectors do not outlive them either, and where no topic is to be had."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from worker.model import ConfigVersion, Origin
from worker.operations.history.versions import Config, find, following, is_managed

_MOST_DELETED = 1000
"""How many deleted connectors are remembered."""


class MemoryHistory:
    """Implements :class:`worker.operations.history.versions.History`."""

    def __init__(self, size: int, epoch_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        """``size``: how many versions a connector keeps."""
        self._size = size
        self._epoch_ms = epoch_ms
        self._lock = threading.Lock()
        self._versions: dict[str, tuple[ConfigVersion, ...]] = {}

    def record(self, name: str, config: Config | None, origin: Origin) -> None:
        self.add(name, config, origin)

    def observe(self, name: str, config: Config | None) -> None:
        self.add(name, config, Origin.CLUSTER)

    def add(self, name: str, config: Config | None, origin: Origin) -> tuple[ConfigVersion | None, list[tuple[str, int]]]:
        """Notes a configuration. The version that was added, and the numbers of those that gave way for it."""
        with self._lock:
            before = self._versions.get(name, ())
            version = following(before, config, origin, self._epoch_ms())
            return version, [] if version is None else self._put(name, (*before, version))

    def take(self, name: str, version: ConfigVersion) -> None:
        """Puts a version that was read from elsewhere in its place."""
        with self._lock:
            others = [one for one in self._versions.get(name, ()) if one.version != version.version]
            self._put(name, tuple(sorted((*others, version), key=lambda one: one.version)))

    def drop(self, name: str, number: int) -> None:
        """Forgets one version."""
        with self._lock:
            left = tuple(one for one in self._versions.get(name, ()) if one.version != number)
            if left:
                self._versions[name] = left
            else:
                self._versions.pop(name, None)

    def versions(self, name: str) -> list[ConfigVersion]:
        with self._lock:
            return list(self._versions.get(name, ()))

    def version(self, name: str, number: int) -> ConfigVersion:
        return find(name, self.versions(name), number)

    def managed(self) -> frozenset[str]:
        with self._lock:
            return frozenset(name for name, versions in self._versions.items() if is_managed(versions))

    def start(self) -> None:
        """There is nothing to begin."""

    def close(self) -> None:
        """There is nothing to end."""

    def _put(self, name: str, versions: tuple[ConfigVersion, ...]) -> list[tuple[str, int]]:
        gone = [(name, one.version) for one in versions[: -self._size]]
        # At the end of the map: the ones that were deleted longest ago stand first.
        self._versions.pop(name, None)
        self._versions[name] = versions[-self._size :]
        deleted = [other for other, kept in self._versions.items() if kept[-1].config is None]
        for other in deleted[: max(0, len(deleted) - _MOST_DELETED)]:
            gone += [(other, one.version) for one in self._versions.pop(other)]
        return gone
