"""The session that a task works with, so that ``stop`` can end a statement that would hold the task up."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from connectors.jdbc.connection.database import Session

_CANCEL_EVERY_S = 0.2


class InUse:
    """Marks the session in use on the task's thread; :meth:`end` is for the thread that stops the task."""

    def __init__(self, name: str) -> None:
        """``name`` is of the thread that cancels."""
        self._name = name
        self._session: Session | None = None
        self._idle = threading.Event()
        self._idle.set()
        self._canceller: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        return self._session is not None

    @contextlib.contextmanager
    def using(self, session: Session) -> Iterator[Session]:
        self._session = session
        self._idle.clear()
        try:
            yield session
        finally:
            self._session = None
            self._idle.set()

    def end(self, patience_s: float = 0.0) -> None:
        """Has what the session does cancelled when it goes on for longer than that. Returns at once: asking a server to cancel
        may block."""
        if self._session is not None and self._canceller is None:
            self._canceller = threading.Thread(target=self._cancel, args=(patience_s,), name=self._name, daemon=True)
            self._canceller.start()

    def _cancel(self, patience_s: float) -> None:
        wait_s = patience_s
        # One cancel could come before its statement has begun.
        while not self._idle.wait(wait_s):
            if (session := self._session) is not None:
                session.cancel()
            wait_s = _CANCEL_EVERY_S

    def join(self) -> None:
        """After the last use: the thread that cancels has ended."""
        if self._canceller is not None:
            self._canceller.join()
