"""Tracks the session that a task is using so that ``stop`` can cancel a statement that would delay it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TypeVar

from connectors.jdbc.connection.session import DriverSession

_CANCEL_INTERVAL_S = 0.2

AnySession = TypeVar("AnySession", bound=DriverSession)


class CancellableSession:
    """The session in use on the task's thread. The thread that stops the task calls :meth:`cancel` and :meth:`join`."""

    def __init__(self, thread_name: str) -> None:
        """``thread_name`` names the thread that cancels."""
        self._thread_name = thread_name
        self._session: DriverSession | None = None
        self._idle = threading.Event()
        self._idle.set()
        self._canceller: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        return self._session is not None

    @contextlib.contextmanager
    def using(self, session: AnySession) -> Iterator[AnySession]:
        """Marks the session as in use inside the block."""
        self._session = session
        self._idle.clear()
        try:
            yield session
        finally:
            self._session = None
            self._idle.set()

    def cancel(self, patience_s: float = 0.0) -> None:
        """Cancels the running statement if it takes longer than ``patience_s``. Returns at once: asking a server to cancel may
        block."""
        if self._session is not None and self._canceller is None:
            self._canceller = threading.Thread(
                target=self._run, args=(patience_s,), name=self._thread_name, daemon=True
            )  # fmt: skip
            self._canceller.start()

    def _run(self, patience_s: float) -> None:
        wait_s = patience_s
        # Repeated, because a cancel request may arrive before its statement has started.
        while not self._idle.wait(wait_s):
            if (session := self._session) is not None:
                session.cancel()
            wait_s = _CANCEL_INTERVAL_S

    def join(self, timeout_s: float | None = None) -> None:
        """Waits for the thread that cancels, at most ``timeout_s``. Call it after the last use."""
        if self._canceller is not None:
            self._canceller.join(timeout_s)
