"""Errors of reading tables as streams of changes."""

from __future__ import annotations

from connect.errors import ConnectError


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

    @property
    def remedy(self) -> str:
        """What to do, as a sentence without its period."""
        return (
            f"The oldest version whose changes can be read is {self.oldest} (the newest is {self.newest}). Stop the connector "
            f'and PATCH its offset to {{"version": {self.oldest}, "row": 0}} to continue there without the changes before it, or '
            "set source.on.gap=snapshot to read the whole table again"
        )


class FileGapError(VersionGapError):
    """A file whose rows the task must read is gone, or has another content."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message, oldest=0, newest=-1)
        self._remedy = remedy

    @property
    def remedy(self) -> str:
        return f"{self._remedy}, or set source.on.gap=snapshot to read all files again"


def with_remedy(error: VersionGapError) -> ConnectError:
    """The error that a user sees."""
    return ConnectError(f"{error.message}. {error.remedy}")
