"""Work that goes on while a test breaks things."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.support.waiting import WAIT_S


class BackgroundWriter:
    """Writes on a thread from :meth:`start` to :meth:`stop`, or within its context. The end raises the error of the work."""

    def __init__(self, name: str, write: Callable[[threading.Event], None]) -> None:
        """``write`` returns when the event is set."""
        self._write = write
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = WAIT_S) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        assert not self._thread.is_alive(), f"{self._thread.name} does not end"
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._write(self._stop)
        except BaseException as e:
            self._failure = e

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
