"""When snapshots of an Iceberg table are due to expire, by what the table says: a task may never run for long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_MANY = 100


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a table keeps snapshots, by its properties."""

    max_age_ms: int
    min_count: int
    is_allowed: bool
    """Whether anybody may delete files of the table."""

    @classmethod
    def read(cls, properties: Mapping[str, str]) -> Retention:
        """With Iceberg's defaults."""
        return cls(
            int(properties.get("history.expire.max-snapshot-age-ms", 5 * 86_400_000)),
            int(properties.get("history.expire.min-snapshots-to-keep", 1)),
            properties.get("gc.enabled", "true").lower() == "true",
        )

    def is_due(self, count: int, old: int, oldest_ms: int, interval_ms: int, now_ms: int) -> bool:
        """Whether snapshots should expire now: of ``count`` snapshots, ``old`` ones are older than the table keeps them.

        Each commit writes all snapshots, and expiry reads them all. So as many expire at once as are kept, and at least 100;
        fewer when the oldest one has been due for an interval.
        """
        expired = min(old, count - self.min_count)
        if expired <= 0 or not self.is_allowed:
            return False
        return expired >= max(_MANY, count - expired) or now_ms - oldest_ms >= self.max_age_ms + interval_ms
