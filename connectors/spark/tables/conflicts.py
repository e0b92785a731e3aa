"""Conflicts between writers of one table, and what keeps a task from writing it."""

from __future__ import annotations

from typing import NoReturn

from connect.errors import ConnectError


class CommitConflict(Exception):
    """Another writer committed something that this commit depends on. Nothing was committed."""


class TableNotLocked(Exception):
    """The catalog did not lock the table for this commit. Nothing was committed."""


class UnsuitableTable(Exception):
    """The table has a feature that only the format's own writer supports: Spark must write the rows."""


class HistoryMoved(ConnectError):
    """The table's rows are no longer those that the task's offsets say: a task must not go on before it starts again."""


def refuse_dropped(place: str, *, exists: bool) -> NoReturn:
    """Raises HistoryMoved for a table that somebody has dropped, and created again if it exists."""
    raise HistoryMoved(
        f"{place} was dropped{' and created again' if exists else ''} while the connector was writing it, and its rows are gone. "
        "Restart the task to continue with new records, or reset the connector's offsets over REST "
        "(DELETE /connectors/<name>/offsets) to load the table again"
    )
