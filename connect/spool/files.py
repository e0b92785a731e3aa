"""Writes small files durably."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from connect.errors import ConnectError


def sync_directory(path: Path) -> None:
    """Makes the names of new, renamed, and removed files in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes) -> None:
    """Replaces the content of a file; a crash leaves either the old or the new one. Durable on return."""
    draft = path.with_name(path.name + ".tmp")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_directory(path.parent)


@contextlib.contextmanager
def naming_spool(directory: Path, doing: str) -> Iterator[None]:
    """Raises errors of the operating system as ConnectError that names the spool and a remedy."""
    try:
        yield
    except OSError as e:
        raise ConnectError(
            f"cannot {doing} the spool {directory}: {e.strerror or e}. Free space or repair the disk, and start the query again: "
            "it continues where it was"
        ) from e
