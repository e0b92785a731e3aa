"""When verifications are due. No clock, no thread, no process: times are arguments, in ms since 1970."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from worker.observability.verifications import VerificationAttempt

SETTLE_MS = 30_000
"""How long a connector must have been on this worker. Meanwhile it catches up, the worker that had it before ends its process,
and a worker that restarts again and again verifies nothing."""
_FIRST_RETRY_MS, _LAST_RETRY_MS = 60_000, 3_600_000
"""A run that has failed is due again soon, since a database may be down for a minute only. Later retries come after as long as
runs have failed, and at least every hour."""


def next_ms(attempt: VerificationAttempt, interval_ms: int, now_ms: int) -> int:
    """Returns when the next run is due. A last run in the future, by another worker's clock, ended now."""
    delay_ms = interval_ms
    if attempt.failing_since_ms is not None:
        failing_ms = attempt.ended_ms - attempt.failing_since_ms
        delay_ms = min(interval_ms, max(_FIRST_RETRY_MS, failing_ms), _LAST_RETRY_MS)
    return min(attempt.ended_ms, now_ms) + delay_ms


@dataclass(slots=True)
class Timetable:
    """When the connectors of this worker are due. Not thread-safe."""

    _since_ms: dict[str, int] = field(default_factory=dict)
    """Since when each connector has been here."""
    _attempts: dict[str, VerificationAttempt] = field(default_factory=dict)
    """Its last run here, also if that could not be stored."""

    def keep(self, connectors: Collection[str], now_ms: int) -> None:
        """Forgets all other connectors."""
        self._since_ms = {name: self._since_ms.get(name, now_ms) for name in connectors}
        self._attempts = {name: one for name, one in self._attempts.items() if name in self._since_ms}

    def ended(self, name: str, attempt: VerificationAttempt) -> None:
        """A run has ended, however it did."""
        self._attempts[name] = attempt

    def last(self, name: str, stored: VerificationAttempt | None) -> VerificationAttempt | None:
        """Returns the last run here, or else the last one by any worker, as it was stored."""
        return self._attempts.get(name, stored)

    def due_ms(self, name: str, interval_ms: int, attempt: VerificationAttempt | None, now_ms: int) -> int:
        """Returns when a connector is due; ``attempt`` is its last run by any worker."""
        since_ms = self._since_ms[name]
        due = since_ms + min(SETTLE_MS, interval_ms)
        if (last := self.last(name, attempt)) is not None:
            # A run by another worker ended before the connector came here, whatever its clock says.
            due = max(due, next_ms(last, interval_ms, now_ms if name in self._attempts else min(since_ms, now_ms)))
        return due
