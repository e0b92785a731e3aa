"""Errors of reading tables as streams of changes."""

from __future__ import annotations

from pyarrow import fs

from connect.errors import ConnectError
from connect.suggestions import did_you_mean


class TableAbsentError(ConnectError):
    """There is no table at a location yet."""


class UnsupportedTableError(ConnectError):
    """The table has a feature that only Spark reads."""


class VersionGapError(ConnectError):
    """Versions that the task must read no longer exist: the log or files were cleaned up, or the table was replaced.

    The message says what is missing; :func:`with_remedy` adds what to do.
    """

    def __init__(self, message: str, *, oldest: int, newest: int) -> None:
        """``oldest`` and ``newest`` are the versions whose changes can be read; without any, ``oldest`` is ``newest + 1``."""
        super().__init__(message)
        self.oldest = oldest
        self.newest = newest


def similar_folder(files: fs.FileSystem, folder: str) -> str:
    """The end of a message about a folder that does not exist: the one beside it with the nearest name, if there is one."""
    parent, _, name = folder.rpartition("/")
    siblings = files.get_file_info(fs.FileSelector(parent, allow_not_found=True))
    names = [info.base_name for info in siblings if info.type is fs.FileType.Directory and info.base_name != name]
    return did_you_mean(name, names, "; ")


def with_remedy(error: VersionGapError) -> ConnectError:
    """The error that a user sees."""
    return ConnectError(
        f"{error.message}. The oldest version whose changes can be read is {error.oldest} (the newest is {error.newest}). Stop "
        f'the connector and PATCH its offset to {{"version": {error.oldest}, "row": 0}} to continue there without the changes '
        "before it, or set source.on.gap=snapshot to read the whole table again"
    )
