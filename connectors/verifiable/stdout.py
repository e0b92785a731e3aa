"""Writes whole lines to the standard output, which tasks and processes share."""

from __future__ import annotations

import logging
import os
import select
import stat
import sys
import threading

_log = logging.getLogger(__name__)

_ATOMIC_BYTES = select.PIPE_BUF
"""POSIX: writes to a pipe up to this size are atomic."""
_WRITABLE_WAIT_S = 1.0
_lock = threading.Lock()
_failure_logged = threading.Event()


def write_lines(lines: bytes) -> None:
    """Writes lines atomically; to a pipe in pieces of whole lines. Blocks while a reader blocks.

    A closed standard output is logged once per process: nobody reads the lines, and only the records matter (Apache's tasks do
    not log it).
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
        if not _failure_logged.is_set():
            _failure_logged.set()
            _log.warning("Cannot write to the standard output; lines of verifiable connectors are lost: %s", e)


def _pieces(lines: bytes) -> list[bytes]:
    pieces, start = [], 0
    while len(lines) - start > _ATOMIC_BYTES:
        end = lines.rfind(b"\n", start, start + _ATOMIC_BYTES) + 1
        if end <= start:  # a single line that is longer
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
