"""Reads the files of ``connectors.dir``: which exist, which are complete, and what they contain."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from connect.config.connector_file import read_connector_file
from connect.errors import ConfigError
from worker.operations.connectors_dir.plan import DesiredConnector

log = logging.getLogger(__name__)

SUFFIXES = (".properties", ".json")
SETTLE_S = 0.5
"""A file that was changed less than this ago may still be being written."""


class FileSignature(NamedTuple):
    """Shows, without reading a file, whether it has changed."""

    changed_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class FileSnapshot:
    """A file as of the last scan."""

    file: str
    signature: FileSignature
    settled: bool = False
    """Whether it was read in this state: nobody seems to be writing it any more."""
    digest: str = ""
    desired: DesiredConnector | None = None
    error: str | None = None
    name: str | None = None
    """The connector's name; the previous one while the file cannot be read."""


@dataclass(frozen=True, slots=True)
class DirectorySnapshot:
    """The whole directory as of the last scan."""

    files: tuple[FileSnapshot, ...]
    """Sorted by name."""
    error: str | None
    """Why the directory itself cannot be read."""
    identity: tuple[int, int] | None = None
    """Device and inode; a change means that something else is mounted there."""


class DirectoryReader:
    """Reads what has changed since the last scan. Not thread-safe."""

    def __init__(self, path: str | Path, epoch_s: Callable[[], float]) -> None:
        self._path = Path(path)
        self._epoch_s = epoch_s
        self._files: dict[str, FileSnapshot] = {}

    def scan(self) -> DirectorySnapshot:
        """Returns the current directory. Never raises: unreadable files have an error."""
        try:
            stat = os.stat(self._path)
            with os.scandir(self._path) as entries:
                # A dangling link is a file that is temporarily unreadable, for instance because its target is not mounted.
                names = sorted(
                    e.name
                    for e in entries
                    if e.name.endswith(SUFFIXES) and not e.name.startswith(".") and (e.is_file() or _is_dangling(e))
                )
        except OSError as e:
            return DirectorySnapshot(tuple(self._files.values()), f"{self._path} cannot be read: {e.strerror}")
        self._files = {file: found for file in names if (found := self._scan_file(file)) is not None}
        return DirectorySnapshot(tuple(self._files.values()), None, (stat.st_dev, stat.st_ino))

    def _scan_file(self, file: str) -> FileSnapshot | None:
        before = self._files.get(file)
        try:
            stat = os.stat(self._path / file)
        except FileNotFoundError:
            if not (self._path / file).is_symlink():
                return None
            return self._unreadable(
                FileSnapshot(file, FileSignature(0, 0, 0), name=_name(before)), "it is a dangling link", before
            )
        except OSError as e:
            return self._unreadable(FileSnapshot(file, FileSignature(0, 0, 0), name=_name(before)), e.strerror, before)
        signature = FileSignature(stat.st_mtime_ns, stat.st_size, stat.st_ino)
        is_same = before is not None and before.signature == signature
        if is_same and before is not None and before.settled:
            return before
        # A file that has not changed since the last scan is settled too: file system clocks may run ahead.
        if not is_same and self._epoch_s() - stat.st_mtime < SETTLE_S:
            return FileSnapshot(file, signature, name=_name(before))
        return self._read(file, signature, before)

    def _read(self, file: str, signature: FileSignature, before: FileSnapshot | None) -> FileSnapshot:
        path = self._path / file
        found = FileSnapshot(file, signature, settled=True, name=_name(before))
        try:
            found = replace(found, digest=hashlib.sha256(path.read_bytes()).hexdigest())
            read = read_connector_file(path)
        except FileNotFoundError:
            return replace(found, settled=False)
        except OSError as e:
            return self._unreadable(replace(found, settled=False), e.strerror, before)
        except ConfigError as e:
            return self._unreadable(found, e.message, before)
        desired = DesiredConnector(file, read.name, dict(read.config), read.initial_state, found.digest)
        return replace(found, desired=desired, name=read.name)

    def _unreadable(self, found: FileSnapshot, reason: str | None, before: FileSnapshot | None) -> FileSnapshot:
        """Returns the file with its error, which is logged once per content and reason."""
        reason = reason or "it cannot be read"
        if before is None or before.error is None or (before.digest, before.error) != (found.digest, reason):
            log.warning("connectors.dir: ignoring %s until it can be read: %s", found.file, reason)
        return replace(found, error=reason)


def _is_dangling(entry: os.DirEntry[str]) -> bool:
    return entry.is_symlink() and not os.path.exists(entry.path)


def _name(found: FileSnapshot | None) -> str | None:
    return None if found is None else found.name
