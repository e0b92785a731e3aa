"""Bytes to lines, as Java's readers cut them: at ``\\n``, ``\\r\\n`` and a lone ``\\r``. Pure: no files here."""

from __future__ import annotations

from itertools import accumulate, count
from operator import add

from connect.java.charsets import decode_utf8


class LineSplitter:
    """Takes blocks of bytes in their order and gives the lines that they complete, with the position after each.

    A line without its end stays inside until the end comes, and so does a ``\\r`` until it is seen whether a ``\\n`` follows.
    Bytes that are no UTF-8 become U+FFFD; positions always count bytes.
    """

    def __init__(self, position: int = 0) -> None:
        self.position = position
        """The byte after the last complete line."""
        self._tail: list[bytes] = []

    @property
    def waiting_bytes(self) -> int:
        """Bytes of a line that has no end yet."""
        return sum(map(len, self._tail))

    def feed(self, block: bytes) -> tuple[list[str], list[int]]:
        """The lines that are complete now and, for each, the position after it."""
        end = _last_end(block, bool(self._tail) and self._tail[-1][-1:] == b"\r")
        if end < 0:
            if block:
                self._tail.append(block)
            return [], []
        whole = b"".join((*self._tail, block[:end]))
        self._tail = [block[end:]] if end < len(block) else []
        start = self.position
        self.position = start + len(whole)
        if whole.isascii() and b"\r" not in whole:
            # A character is a byte here, and an end one more: the lines themselves tell the positions.
            lines = whole.decode("ascii").split("\n")
            lines.pop()
            return lines, list(map(add, accumulate(map(len, lines)), count(start + 1)))
        return _lines_of(whole), _positions_of(whole, start)


def _last_end(block: bytes, after_return: bool) -> int:
    """Where the last complete line of the block ends, or -1. A return at the very end is not complete: a newline may follow."""
    newline = block.rfind(b"\n") + 1
    lone = block.rfind(b"\r", newline, len(block) - 1) + 1
    end = max(newline, lone)
    if end:
        return end
    # A return that waited at the end of the block before is an end of its own, whatever stands here but a newline.
    return 0 if after_return and block else -1


def _lines_of(whole: bytes) -> list[str]:
    unified = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in whole else whole
    lines = decode_utf8(unified).split("\n")
    lines.pop()  # nothing follows the last end
    return lines


def _positions_of(whole: bytes, start: int) -> list[int]:
    positions = accumulate(map(len, whole.splitlines(keepends=True)), initial=start)
    next(positions)
    return list(positions)
