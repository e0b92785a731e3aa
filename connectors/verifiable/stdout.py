"""Whole lines on the standard output, which many tasks, and processes, share."""

from __future__ import annotations

import logging
import os
import select
import stat
import sys
import threading

_log = logging.getLogger(__name__)

_ATOMIC_BYTES = select.PIPE_BUF
"""POSIX: what several processes write to one pipe is not mixed, as long as a write has no more than this."""
_WRITABLE_WAIT_S = 1.0
_lock = threading.Lock()
_told = threading.Event()


def write_lines(lines: bytes) -> None:
    """Writes lines, each with its end, in one piece; to a pipe in pieces that end with a line. Blocks as long as a reader does.

    A standard output that is closed is noted in the log, once a process: nobody reads the lines then, and the records are what
    matters (Apache's tasks do not even note it).
    """
    if not lines:
        return
    try:
        fd = sys.stdout.fileno()
        pieces = _pieces(lines) if stat.S_ISFIFO(os.fstat(fd).st_mode) else [lines]
        with _lock:
            for piece in pieces:
                _write(fd, piece)
    except (OSError, ValueError) as e:
        if not _told.is_set():
            _told.set()
            _log.warning("The standard output cannot be written to, lines of verifiable connectors are lost: %s", e)


def _pieces(lines: bytes) -> list[bytes]:
    pieces, start = [], 0
    while len(lines) - start > _ATOMIC_BYTES:
        end = lines.rfind(b"\n", start, start + _ATOMIC_BYTES) + 1
        if end <= start:  # one line that is longer by itself
            end = lines.find(b"\n", start) + 1 or len(lines)
        pieces.append(lines[start:end])
        start = end
    if start < len(lines):
        pieces.append(lines[start:])
    return pieces


def _write(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(fd, left) :]
        except BlockingIOError:
            select.select([], [fd], [], _WRITABLE_WAIT_S)
