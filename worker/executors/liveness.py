"""Whether a process hangs: it is pinged, and must answer within ``task.executor.hang.timeout.ms``."""

from __future__ import annotations


class Liveness:
    """The pings of one process. ``check`` runs on the supervisor's thread, ``on_answer`` on any."""

    def __init__(self, hang_timeout_s: float) -> None:
        self.hang_timeout_s = hang_timeout_s
        self._pinged_at: float | None = None
        self._checked_at = 0.0
        self._unchecked_s = 0.0
        """How long, since the latest ping, nobody checked because this process was itself held up. It does not count."""

    @property
    def is_answered(self) -> bool:
        """Whether no ping is unanswered, so that the next one is due."""
        return self._pinged_at is None

    def on_ping(self, now: float) -> None:
        """A ping is sent."""
        self._pinged_at, self._unchecked_s = now, 0.0
        self._checked_at = now

    def on_answer(self) -> None:
        """The latest ping was answered."""
        self._pinged_at = None

    def unanswered_s(self, now: float) -> float:
        """Returns how long the latest ping has been unanswered; 0 if it was answered."""
        pinged_at = self._pinged_at
        return 0.0 if pinged_at is None else max(0.0, now - pinged_at - self._unchecked_s)

    def is_hanging(self, now: float) -> bool:
        """Whether the latest ping has been unanswered for too long."""
        pinged_at = self._pinged_at
        if pinged_at is None:
            return False
        # The supervisor checks more often than this. If it could not, the answer may be here already, and not read yet.
        self._unchecked_s += max(0.0, now - self._checked_at - self.hang_timeout_s / 2)
        self._checked_at = now
        return now - pinged_at - self._unchecked_s > self.hang_timeout_s
