"""Locks between processes that write one table on a local disk.

On local disks, Delta and Iceberg check that a version does not exist and then rename a file to it, which is atomic only inside
one JVM. Two workers, or a worker and its zombie, could both write a version. Object stores, catalogs, and HDFS have their own
guards.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from connect.errors import RetriableError

_WAIT_S = 20.0
_POLL_S = 0.005


class TableLock:
    """A lock file in the folder of a table's metadata, on a local disk; without a folder (``None``), it locks nothing."""

    def __init__(self, folder: str | None, name: str) -> None:
        self._path = None if folder is None else Path(folder) / name

    @contextlib.contextmanager
    def tried(self) -> Iterator[bool]:
        """Tries to hold the lock for a with block, and says whether it does. Nobody holds the lock of a table that does not
        exist."""
        if self._path is None:
            yield True
            return
        if not self._path.parent.exists():
            yield False
            return
        with self._path.open("a+") as file:
            yield _try_lock(file.fileno())

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Holds the lock for a with block. The system releases it if the process dies. Raises RetriableError when another
        process keeps it, for example one that is stopped."""
        if self._path is None:
            yield
            return
        with self._path.open("a+") as file:
            deadline = time.monotonic() + _WAIT_S
            while not _try_lock(file.fileno()):
                if time.monotonic() > deadline:
                    file.seek(0)
                    raise RetriableError(
                        f"process {file.read().strip() or 'unknown'} has been committing to {self._path.parent.parent} for more "
                        f"than {_WAIT_S:g} s; if it is stopped, resume or end it"
                    )
                time.sleep(_POLL_S)
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield


def commit_lock(metadata_folder: str | None) -> TableLock:
    """Held by every commit to the table with this folder of metadata, whoever makes it: the worker, or Spark for it."""
    return TableLock(metadata_folder, ".sluice-commit.lock")


@contextlib.contextmanager
def creation_lock(folder: str | None) -> Iterator[None]:
    """Held while the table in a local folder is created: by one process at a time for all tables beside it. Without a folder
    (``None``), it locks nothing."""
    if folder is None:
        yield
        return
    parent = Path(folder).parent
    parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + _WAIT_S
        while not _try_lock(descriptor):
            if time.monotonic() > deadline:
                raise RetriableError(f"another process has been creating a table in {parent} for more than {_WAIT_S:g} s")
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
