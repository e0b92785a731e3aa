"""Config history in memory: for standalone workers, whose connectors do not outlive them, and for clusters without a topic."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from worker.model import ConfigVersion, Origin
from worker.operations.history.versions import Config, find, is_managed, next_version

_MAX_DELETED = 1000
"""How many deleted connectors are retained."""


class MemoryHistory:
    """Implements :class:`worker.operations.history.versions.History`."""

    def __init__(self, size: int, epoch_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        """``size`` is the number of versions retained per connector."""
        self._size = size
        self._epoch_ms = epoch_ms
        self._lock = threading.Lock()
        self._versions: dict[str, tuple[ConfigVersion, ...]] = {}

    def record(self, name: str, config: Config | None, origin: Origin) -> None:
        self.add(name, config, origin)

    def observe(self, name: str, config: Config | None) -> None:
        self.add(name, config, Origin.CLUSTER)

    def add(self, name: str, config: Config | None, origin: Origin) -> tuple[ConfigVersion | None, list[tuple[str, int]]]:
        """Adds a configuration. Returns the added version, and (connector, number) of the dropped ones."""
        with self._lock:
            before = self._versions.get(name, ())
            version = next_version(before, config, origin, self._epoch_ms())
            return version, [] if version is None else self._put(name, (*before, version))

    def take(self, name: str, version: ConfigVersion) -> None:
        """Inserts a version that was read from elsewhere."""
        with self._lock:
            others = [one for one in self._versions.get(name, ()) if one.version != version.version]
            self._put(name, tuple(sorted((*others, version), key=lambda one: one.version)))

    def drop(self, name: str, number: int) -> None:
        """Removes one version."""
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
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""

    def _put(self, name: str, versions: tuple[ConfigVersion, ...]) -> list[tuple[str, int]]:
        dropped = [(name, one.version) for one in versions[: -self._size]]
        # At the end of the map, so that the connectors deleted longest ago come first.
        self._versions.pop(name, None)
        self._versions[name] = versions[-self._size :]
        deleted = [other for other, versions_of in self._versions.items() if versions_of[-1].config is None]
        for other in deleted[: max(0, len(deleted) - _MAX_DELETED)]:
            dropped += [(other, one.version) for one in self._versions.pop(other)]
        return dropped
