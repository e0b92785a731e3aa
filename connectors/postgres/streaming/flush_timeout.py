"""What happens if the connection does not take a status update with a flush LSN in time (``lsn.flush.timeout.action``)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from connect.errors import ConnectError
from connectors.postgres.config import SlotSettings
from connectors.postgres.offsets import format_lsn

log = logging.getLogger(__name__)


class FlushTimeout:
    """Tracks the status update that the network has not taken yet. ``clock`` returns seconds. Not thread-safe."""

    def __init__(self, settings: SlotSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout_s = settings.flush_timeout_s
        self._action = settings.flush_timeout_action
        self._clock = clock
        self._lsn = 0
        self._since: float | None = None

    @property
    def is_pending(self) -> bool:
        return self._since is not None

    def sent(self, lsn: int, *, complete: bool) -> None:
        """A status update with this flush LSN was handed over; ``complete``: the network has taken all of it."""
        if complete:
            self._since = None
        elif self._since is None and lsn:
            self._lsn, self._since = lsn, self._clock()

    def check(self) -> None:
        """Takes the action once the timeout is over. Raises ConnectError for ``fail``."""
        if self._since is None or self._clock() - self._since < self._timeout_s:
            return
        self._since = None
        message = f"LSN {format_lsn(self._lsn)} could not be flushed within lsn.flush.timeout.ms={self._timeout_s * 1000:g}"
        match self._action:
            case "fail":
                raise ConnectError(f"{message} (lsn.flush.timeout.action=fail)")
            case "warn":
                log.warning("%s", message)
            case _:
                log.debug("%s", message)
