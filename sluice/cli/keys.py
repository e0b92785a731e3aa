"""Keys that are pressed while a command draws on a terminal."""

from __future__ import annotations

import codecs
import os
import re
import select
import sys
import threading
from collections import deque
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
_KEY = re.compile(r"\x1b\[[0-9;]*[@-~]|\x1bO.|.", re.S)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-9;]*|O)?\Z")
_REST_TIMEOUT_S = 0.05
"""How long the rest of a sequence may take. Without one, it was the key Esc."""


def name_of(sequence: str) -> str:
    """Returns the name of a key from what a terminal sends; a letter is its own name."""
    return _SEQUENCES.get(sequence, sequence)


def split_keys(text: str) -> tuple[list[str], str]:
    """Returns the names of the keys in what a terminal sent, which may be several at a time, and what begins another one."""
    unfinished = _UNFINISHED.search(text)
    end = unfinished.start() if unfinished else len(text)
    return [name_of(sequence) for sequence in _KEY.findall(text[:end])], text[end:]


class Keys:
    """Reads keys without Enter, and without showing them. Use as a context manager, which restores the terminal.

    Where stdin is no terminal, there are no keys, and :meth:`wait` only waits.
    """

    def __init__(self) -> None:
        self._saved: list[Any] | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pressed: deque[str] = deque()
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
        if not self._pressed:
            self._read(max(0.0, timeout_s))
        return self._pressed.popleft() if self._pressed else None

    def _read(self, timeout_s: float) -> None:
        fd, rest = sys.stdin.fileno(), ""
        while select.select([fd], [], [], _REST_TIMEOUT_S if rest else timeout_s)[0]:
            data = os.read(fd, _READ_BYTES)
            if not data:  # the terminal is gone
                raise KeyboardInterrupt
            keys, rest = split_keys(rest + self._decoder.decode(data))
            self._pressed.extend(keys)
            if not rest:
                return
        if rest:
            self._pressed.append(name_of(rest))
