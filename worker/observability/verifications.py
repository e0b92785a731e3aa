"""The last results of ``sluice verify``, which stores them over REST, for statuses and metrics."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MOST_RESULTS = 1000


@dataclass(frozen=True, slots=True)
class StoredVerification:
    """A result as it was stored. ``stored_ms`` is in ms since 1970 UTC."""

    stored_ms: int
    equal: bool
    rows: int
    differences: int
    unsettled: int
    seconds: float
    document: Mapping[str, Any]
    """The whole result, without values of rows."""


class VerificationResults:
    """The last result of each connector, in the memory of this process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: dict[str, StoredVerification] = {}

    def store(self, connector: str, document: Mapping[str, Any]) -> StoredVerification:
        """Replaces the result of a connector. ``document`` has the members of :class:`StoredVerification` of the same names."""
        stored = StoredVerification(
            time.time_ns() // 1_000_000,
            bool(document["equal"]),
            int(document["rows"]),
            int(document["differences"]),
            int(document["unsettled"]),
            float(document["seconds"]),
            dict(document),
        )
        with self._lock:
            self._results.pop(connector, None)
            self._results[connector] = stored
            while len(self._results) > _MOST_RESULTS:
                del self._results[next(iter(self._results))]
        return stored

    def get(self, connector: str) -> StoredVerification | None:
        with self._lock:
            return self._results.get(connector)

    def all(self) -> dict[str, StoredVerification]:
        """Returns the results by connector, as of now."""
        with self._lock:
            return dict(self._results)


RESULTS = VerificationResults()
"""Those of this process, like the metrics of a process."""
