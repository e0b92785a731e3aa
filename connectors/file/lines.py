"""Splits bytes into lines like Java's readers: at ``\\n``, ``\\r\\n``, and a lone ``\\r``. Pure: no file access."""

from __future__ import annotations

from itertools import accumulate, count
from operator import add

from connect.java.charsets import decode_utf8


class LineSplitter:
    """Splits consecutive blocks of bytes into complete lines, with the position after each.

    An incomplete line is kept until its end arrives, and a final ``\\r`` until it is known whether a ``\\n`` follows.
    Invalid UTF-8 becomes U+FFFD; positions always count bytes.
    """

    def __init__(self, position: int = 0) -> None:
        self.position = position
        """Position after the last complete line, in bytes."""
        self._tail: list[bytes] = []

    @property
    def pending_bytes(self) -> int:
        """Size of the incomplete line in bytes."""
        return sum(map(len, self._tail))

    def feed(self, block: bytes) -> tuple[list[str], list[int]]:
        """Adds a block; returns the completed lines and the position after each."""
        end = _find_last_line_end(block, bool(self._tail) and self._tail[-1][-1:] == b"\r")
        if end < 0:
            if block:
                self._tail.append(block)
            return [], []
        whole = b"".join((*self._tail, block[:end]))
        self._tail = [block[end:]] if end < len(block) else []
        start = self.position
        self.position = start + len(whole)
        if whole.isascii() and b"\r" not in whole:
            # Each character and each line end is one byte, so positions follow from the lengths of the lines.
            lines = whole.decode("ascii").split("\n")
            lines.pop()
            return lines, list(map(add, accumulate(map(len, lines)), count(start + 1)))
        return _split_lines(whole), _find_positions(whole, start)


def _find_last_line_end(block: bytes, after_return: bool) -> int:
    """End of the last complete line in the block, or -1. A final return does not count: a newline may follow."""
    newline = block.rfind(b"\n") + 1
    lone = block.rfind(b"\r", newline, len(block) - 1) + 1
    end = max(newline, lone)
    if end:
        return end
    # A return at the end of the previous block ends a line, unless a newline follows here.
    return 0 if after_return and block else -1


def _split_lines(whole: bytes) -> list[str]:
    unified = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in whole else whole
    lines = decode_utf8(unified).split("\n")
    lines.pop()  # empty part after the last line end
    return lines


def _find_positions(whole: bytes, start: int) -> list[int]:
    positions = accumulate(map(len, whole.splitlines(keepends=True)), initial=start)
    next(positions)
    return list(positions)
