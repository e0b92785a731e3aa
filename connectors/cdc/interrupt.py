"""Ends waits for a server when the task stops."""

from __future__ import annotations

import contextlib
import select
import socket


class Interrupt:
    """Ends waits. ``set`` may be called from any thread, any number of times."""

    def __init__(self) -> None:
        self._set = False
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)

    def set(self) -> None:
        self._set = True
        with contextlib.suppress(OSError):
            self._writer.send(b"x")

    @property
    def is_set(self) -> bool:
        return self._set

    def fileno(self) -> int:
        return self._reader.fileno()

    def wait(self, seconds: float) -> bool:
        """Waits for some seconds or until set; returns whether it is set."""
        if not self._set and seconds > 0:
            poll = select.poll()
            poll.register(self._reader, select.POLLIN)
            poll.poll(seconds * 1000)
        return self._set

    def close(self) -> None:
        self._set = True
        self._reader.close()
        self._writer.close()
