"""Looking at the files of ``connectors.dir``: which there are, which are whole, what they say."""

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
from worker.operations.connectors_dir.plan import Wanted

log = logging.getLogger(__name__)

SUFFIXES = (".properties", ".json")
SETTLE_S = 0.5
"""A file that was changed less than this ago may still be being written."""


class Signature(NamedTuple):
    """What tells, without reading a file, that it is another one than before."""

    changed_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class FileLook:
    """A file as it was seen last."""

    file: str
    signature: Signature
    settled: bool = False
    """Whether it was read as it stands: nobody seems to write it any more."""
    digest: str = ""
    wanted: Wanted | None = None
    error: str | None = None
    name: str | None = None
    """Of the connector; the one from before while the file cannot be read."""


@dataclass(frozen=True, slots=True)
class DirectoryLook:
    """The whole directory as it was seen last."""

    files: tuple[FileLook, ...]
    """By name."""
    error: str | None
    """Why the directory itself cannot be looked at."""
    identity: tuple[int, int] | None = None
    """Device and inode: another one means that something else is mounted there."""


class DirectoryReader:
    """Reads what is new at each look, and remembers the rest. For one thread."""

    def __init__(self, path: str | Path, epoch_s: Callable[[], float]) -> None:
        self._path = Path(path)
        self._epoch_s = epoch_s
        self._files: dict[str, FileLook] = {}

    def look(self) -> DirectoryLook:
        """The directory as it is now. Never raises: what cannot be read has its error."""
        try:
            stat = os.stat(self._path)
            with os.scandir(self._path) as entries:
                # A link to nothing is a file that cannot be read for now, as when what it is on is not mounted.
                there = sorted(
                    e.name
                    for e in entries
                    if e.name.endswith(SUFFIXES) and not e.name.startswith(".") and (e.is_file() or _leads_nowhere(e))
                )
        except OSError as e:
            return DirectoryLook(tuple(self._files.values()), f"{self._path} cannot be read: {e.strerror}")
        self._files = {file: look for file in there if (look := self._look_at(file)) is not None}
        return DirectoryLook(tuple(self._files.values()), None, (stat.st_dev, stat.st_ino))

    def _look_at(self, file: str) -> FileLook | None:
        before = self._files.get(file)
        try:
            stat = os.stat(self._path / file)
        except FileNotFoundError:
            if not (self._path / file).is_symlink():
                return None
            return self._unreadable(FileLook(file, Signature(0, 0, 0), name=_name(before)), "it is a link to nothing", before)
        except OSError as e:
            return self._unreadable(FileLook(file, Signature(0, 0, 0), name=_name(before)), e.strerror, before)
        signature = Signature(stat.st_mtime_ns, stat.st_size, stat.st_ino)
        is_same = before is not None and before.signature == signature
        if is_same and before is not None and before.settled:
            return before
        # Unchanged since the last look is settled too: clocks of file systems may run ahead.
        if not is_same and self._epoch_s() - stat.st_mtime < SETTLE_S:
            return FileLook(file, signature, name=_name(before))
        return self._read(file, signature, before)

    def _read(self, file: str, signature: Signature, before: FileLook | None) -> FileLook:
        path = self._path / file
        look = FileLook(file, signature, settled=True, name=_name(before))
        try:
            look = replace(look, digest=hashlib.sha256(path.read_bytes()).hexdigest())
            read = read_connector_file(path)
        except FileNotFoundError:
            return replace(look, settled=False)
        except OSError as e:
            return self._unreadable(replace(look, settled=False), e.strerror, before)
        except ConfigError as e:
            return self._unreadable(look, e.message, before)
        wanted = Wanted(file, read.name, dict(read.config), read.initial_state, look.digest)
        return replace(look, wanted=wanted, name=read.name)

    def _unreadable(self, look: FileLook, reason: str | None, before: FileLook | None) -> FileLook:
        """The file with its error, which is told once for each content and reason."""
        reason = reason or "it cannot be read"
        if before is None or before.error is None or (before.digest, before.error) != (look.digest, reason):
            log.warning("connectors.dir: %s is left as it is until it can be read: %s", look.file, reason)
        return replace(look, error=reason)


def _leads_nowhere(entry: os.DirEntry[str]) -> bool:
    return entry.is_symlink() and not os.path.exists(entry.path)


def _name(look: FileLook | None) -> str | None:
    return None if look is None else look.name
