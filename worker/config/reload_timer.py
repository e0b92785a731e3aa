"""Reloads connectors when values from config providers expire (TTL)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future

from connect.config.providers.references import Expiry

_MIN_DELAY_S = 0.1
"""Minimum delay, so that values without any lifetime do not restart connectors continuously."""
_MAX_RESTART_S = 30.0
"""How long the next connector waits for the restart of one."""


class ReloadTimer:
    """One thread for all connectors. The creator starts and closes it; other methods may be called from any thread."""

    def __init__(
        self,
        reload: Callable[[str, bool], Future[None] | None],
        clock: Callable[[], float] = time.monotonic,
        *,
        max_restart_s: float = _MAX_RESTART_S,
    ) -> None:
        """``reload`` gets a connector's name and whether to restart it only if values changed.

        It is called on the timer's thread and must not block. The next connector is reloaded when the future that it returns is
        done, or after ``max_restart_s``, so that a secret that many connectors share does not restart them all at once.
        """
        self._reload = reload
        self._clock = clock
        self._max_restart_s = max_restart_s
        self._changed = threading.Condition()
        self._due: dict[str, list[tuple[float, bool]]] = {}
        self._thread = threading.Thread(target=self._run, name="config-reload", daemon=True)
        self._scheduled = 0
        self._closed = False

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def schedule(self, connector: str, expiries: Iterable[Expiry]) -> None:
        """Replaces the expiry times of a connector's values; none means never."""
        now = self._clock()
        times = [(now + max(_MIN_DELAY_S, e.ttl_ms / 1000), e.restarts_only_if_changed) for e in expiries]
        with self._changed:
            self._due.pop(connector, None)
            if times and not self._closed:
                self._due[connector] = times
                self._scheduled += 1
                self._changed.notify()

    def run_due(self) -> float | None:
        """Reloads every connector with expired values. Returns the seconds until the next expiry; None if there is none."""
        now = self._clock()
        ready: dict[str, bool] = {}
        with self._changed:
            for connector, times in list(self._due.items()):
                over = [only_if_changed for due, only_if_changed in times if due <= now]
                if over:
                    ready[connector] = all(over)
                    self._due[connector] = [(due, only) for due, only in times if due > now]
        for connector, only_if_changed in ready.items():
            if self._closed:
                return None
            self._wait_for(self._reload(connector, only_if_changed))
        with self._changed:
            later = [due for times in self._due.values() for due, _ in times]
        return max(0.0, min(later) - self._clock()) if later else None

    def _wait_for(self, restarted: Future[None] | None) -> None:
        if restarted is None:
            return
        restarted.add_done_callback(lambda _: self._wake())
        with self._changed:
            self._changed.wait_for(lambda: self._closed or restarted.done(), self._max_restart_s)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Stops the thread."""
        with self._changed:
            self._closed = True
            self._due.clear()
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            seen = self._scheduled
            wait_s = self.run_due()
            with self._changed:
                if self._closed:
                    return
                # If something was scheduled since, check it first.
                if self._scheduled == seen:
                    self._changed.wait(wait_s)
