"""Work that goes on while a test breaks things."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

_END_S = 120.0


class Background(ABC):
    """Works on a thread from :meth:`start` to :meth:`stop`, which raises the error that has ended the work."""

    def __init__(self, name: str) -> None:
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(_END_S)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as e:
            self._failure = e

    @abstractmethod
    def _run(self) -> None:
        """Works until ``_stop`` is set."""
