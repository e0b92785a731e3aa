"""Ends calls whose callers no longer wait for an answer."""

from __future__ import annotations

import threading


class Cancellation:
    """The caller's side cancels, the other side waits for it on a thread. For one call. Safe from any thread."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._is_cancelled = False

    @property
    def is_cancelled(self) -> bool:
        return self._is_cancelled

    def cancel(self) -> None:
        """Says that nobody waits for the answer. Does not block; does nothing for a call that has ended."""
        if not self._over.is_set():
            self._is_cancelled = True
            self._over.set()

    def end(self) -> None:
        """Says that the call has ended."""
        self._over.set()

    def wait(self, timeout_s: float) -> bool:
        """Waits until the call is cancelled or has ended. Returns False if neither happened within the time."""
        return self._over.wait(timeout_s)
