"""When verifications are due. No clock, no thread, no process: times are arguments, in ms since 1970."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from connect.config.definition import ConfigDef
from worker.config.extension_keys import (
    VERIFY_IGNORED_COLUMNS,
    VERIFY_INTERVAL,
    VERIFY_KEYS,
    VERIFY_SOURCE,
    VERIFY_TABLES,
    VERIFY_TIMEOUT,
)
from worker.observability.verifications import VerificationAttempt

SETTLE_MS = 30_000
"""How long a connector must have been on this worker. Meanwhile it catches up, the worker that had it before ends its process,
and a worker that restarts again and again verifies nothing."""
_KEYS = ConfigDef(VERIFY_KEYS)


@dataclass(frozen=True, slots=True)
class VerifySettings:
    """The keys of one connector, typed."""

    interval_ms: int
    timeout_ms: int
    source: str
    tables: str
    ignored_columns: str

    @classmethod
    def of(cls, config: Mapping[str, str | None]) -> VerifySettings:
        """Parses the keys, without references to config providers. Raises ConfigError."""
        given = {key.name: value for key in VERIFY_KEYS if (value := config.get(key.name)) is not None}
        values = _KEYS.parse(given)
        names = (VERIFY_INTERVAL, VERIFY_TIMEOUT, VERIFY_SOURCE, VERIFY_TABLES, VERIFY_IGNORED_COLUMNS)
        return cls(*(values[name] for name in names))


def has_schedule(config: Mapping[str, str | None]) -> bool:
    """Whether a connector may have a schedule. Cheap, since it is asked for every connector again and again."""
    return (config.get(VERIFY_INTERVAL) or "0").strip() != "0"


def next_ms(attempt: VerificationAttempt, interval_ms: int, now_ms: int) -> int:
    """Returns when the next run is due. A last run in the future, by another worker's clock, ended now."""
    return min(attempt.ended_ms, now_ms) + interval_ms


@dataclass(slots=True)
class Timetable:
    """When the connectors of this worker are due. Not thread-safe."""

    _since_ms: dict[str, int] = field(default_factory=dict)
    """Since when each connector has been here."""
    _ended_ms: dict[str, int] = field(default_factory=dict)
    """When its last run here ended, also if that could not be stored."""

    def keep(self, connectors: Collection[str], now_ms: int) -> None:
        """Forgets all other connectors."""
        self._since_ms = {name: self._since_ms.get(name, now_ms) for name in connectors}
        self._ended_ms = {name: at for name, at in self._ended_ms.items() if name in self._since_ms}

    def ended(self, name: str, now_ms: int) -> None:
        """A run has ended, however it did."""
        self._ended_ms[name] = now_ms

    def due_ms(self, name: str, interval_ms: int, attempt: VerificationAttempt | None, now_ms: int) -> int:
        """Returns when a connector is due; ``attempt`` is its last run by any worker."""
        due = self._since_ms[name] + min(SETTLE_MS, interval_ms)
        if attempt is not None:
            due = max(due, next_ms(attempt, interval_ms, now_ms))
        if name in self._ended_ms:
            due = max(due, self._ended_ms[name] + interval_ms)
        return due
