"""The locks of a spool's writer and reader."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from pathlib import Path

from connect.errors import ConfigError

_PROBED_S = 0.001
WRITER, READER = "writer", "reader"
LOCATION_KEY = "spool.location"
_REMEDY = {
    WRITER: "Stop that one, or give this connector a spool of its own",
    READER: "Stop that query, or give this one a spool of its own: a spool delivers each record to one query",
}


class SpoolLock:
    """A lock that the system releases when its process ends in any way. Its file names the holder and is never removed: otherwise
    two processes could lock two different files of that name."""

    def __init__(self, directory: Path, role: str) -> None:
        self._directory = directory
        self._role = role
        self._path = directory / f"{role}.lock"
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    def take(self) -> None:
        """Takes the lock, unless this object already has it; creates the directory if there is none. Raises ConfigError that
        names the holder, or the problem of the directory."""
        if self._descriptor is not None:
            return
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise ConfigError.invalid(LOCATION_KEY, self._directory, f"the directory cannot be created: {e.strerror}") from e
        descriptor = self._open()
        if not _take(descriptor):
            holder = os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip()
            os.close(descriptor)
            raise ConfigError.invalid(
                LOCATION_KEY,
                self._directory,
                f"the spool has another {self._role}{f' ({holder})' if holder else ''}. {_REMEDY[self._role]}",
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on host {socket.gethostname()}\n".encode(), 0)
        self._descriptor = descriptor

    def is_free(self) -> bool:
        """Whether no process holds the lock."""
        if self._descriptor is not None:
            return False
        if not self._path.exists():
            return True
        descriptor = self._open()
        try:
            return _try(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    def release(self) -> None:
        """Releases the lock. May be called more than once."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        try:
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as e:
            raise ConfigError.invalid(
                LOCATION_KEY, self._directory, f"the directory cannot be written to: {e.strerror} ({self._path})"
            ) from e


def _take(descriptor: int) -> bool:
    """Takes the lock, if no other process has it. One that only asks whether it is free shares it for a moment."""
    while not _try(descriptor, fcntl.LOCK_EX):
        if not _try(descriptor, fcntl.LOCK_SH):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        time.sleep(_PROBED_S)
    return True


def _try(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
