"""Keys that are pressed while a command draws on a terminal."""

from __future__ import annotations

import os
import select
import sys
import threading
from types import TracebackType
from typing import Any, Self

_SEQUENCES = {
    "\x1b[A": "up",
    "\x1bOA": "up",
    "k": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "j": "down",
    "\x1b[5~": "page up",
    "b": "page up",
    "\x1b[6~": "page down",
    " ": "page down",
    "g": "start",
    "\x1b[H": "start",
}
_READ_BYTES = 64


def name_of(sequence: str) -> str:
    """Returns the name of a key from what a terminal sends; a letter is its own name."""
    return _SEQUENCES.get(sequence, sequence)


class Keys:
    """Reads keys without Enter, and without showing them. Use as a context manager, which restores the terminal.

    Where stdin is no terminal, there are no keys, and :meth:`wait` only waits.
    """

    def __init__(self) -> None:
        self._saved: list[Any] | None = None
        self._never = threading.Event()

    def __enter__(self) -> Self:
        if sys.stdin.isatty():
            import termios
            import tty

            self._saved = termios.tcgetattr(sys.stdin.fileno())
            tty.setcbreak(sys.stdin.fileno())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._saved is not None:
            import termios

            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._saved)

    def wait(self, timeout_s: float) -> str | None:
        """Returns the next key, or None if none is pressed within the time."""
        if self._saved is None:
            self._never.wait(timeout_s)
            return None
        fd = sys.stdin.fileno()
        if not select.select([fd], [], [], max(0.0, timeout_s))[0]:
            return None
        data = os.read(fd, _READ_BYTES)
        if not data:  # the terminal is gone
            raise KeyboardInterrupt
        return name_of(data.decode("utf-8", "replace"))
