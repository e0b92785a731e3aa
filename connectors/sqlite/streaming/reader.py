"""Reads the change table: the changes after a position, with a check that they continue it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from connectors.sqlite.connection import SqliteConnection
from connectors.sqlite.errors import DatabaseReplacedError
from connectors.sqlite.offsets import SequencePosition, julian_to_ms
from connectors.sqlite.triggers.ddl import CaptureNames, ChangeOperation

_LOOK_BACK: Final = 1_000
"""Candidates before a position that are looked for, and changes that are read at a time."""


class ChangeTableReader:
    """Reads changes in a read transaction of the caller."""

    def __init__(self, names: CaptureNames, max_rows: int, max_bytes: int) -> None:
        self._changes = names.changes
        self._max_rows = max_rows
        self._max_bytes = max_bytes

    def end(self, connection: SqliteConnection) -> SequencePosition:
        """The position of the newest change; 0 if the table is empty, which it is only if somebody has emptied it."""
        rows = connection.query(f"SELECT seq, at FROM {self._changes} ORDER BY seq DESC LIMIT 1", what="read changes")
        return SequencePosition(int(rows[0][0]), julian_to_ms(rows[0][1])) if rows else SequencePosition(0, 0)

    def start(self, connection: SqliteConnection) -> SequencePosition:
        """The position of the oldest change that is left."""
        rows = connection.query(f"SELECT seq, at FROM {self._changes} ORDER BY seq LIMIT 1", what="read changes")
        return SequencePosition(int(rows[0][0]), julian_to_ms(rows[0][1])) if rows else SequencePosition(0, 0)

    def check(self, connection: SqliteConnection, position: SequencePosition) -> None:
        """Raises DatabaseReplacedError if the table does not have the change at the position: then it was emptied, or the file
        is an older or a newer copy of the database."""
        at = connection.value(f"SELECT at FROM {self._changes} WHERE seq = ?", [position.sequence], what="read changes")
        if at is not None and julian_to_ms(at) == position.ts_ms:
            return
        found = "another change has that number" if at is not None else "the table does not have it"
        raise DatabaseReplacedError(
            f"the stored offset is change {position.sequence} of {self._changes} in {connection.path}, but {found}: the file was "
            "replaced by a copy, or somebody has deleted changes. Changes are missing; set snapshot.mode=when_needed to take a "
            "new snapshot, or delete the connector's offsets"
        )

    def read(self, connection: SqliteConnection, position: SequencePosition) -> Sequence[Sequence[Any]]:
        """Returns the next changes, at most those of a batch."""
        sql = f"SELECT * FROM {self._changes} WHERE seq > ? ORDER BY seq LIMIT ?"
        return connection.query_part(sql, [position.sequence, self._max_rows], self._max_bytes, what="read changes")[0]

    def look_back(self, connection: SqliteConnection, position: SequencePosition) -> Iterator[Sequence[Sequence[Any]]]:
        """Yields changes before the position, in parts, beginning with a candidate, if the statement that has made them goes on
        after it: see :mod:`connectors.sqlite.streaming.replaced_rows`."""
        last, changes = position.sequence, self._changes
        following = f"(SELECT at FROM {changes} WHERE seq > ? ORDER BY seq LIMIT 1)"
        at = connection.value(f"SELECT at FROM {changes} WHERE seq = ? AND at = {following}", [last, last], what="read changes")
        if at is None:
            return
        candidates = f"SELECT seq FROM {changes} WHERE seq <= ? AND at = ? AND op = ? ORDER BY seq DESC LIMIT ?"
        given = [last, at, int(ChangeOperation.CANDIDATE), _LOOK_BACK]
        first = connection.value(f"SELECT min(seq) FROM ({candidates})", given, what="read changes")
        part = f"SELECT * FROM {changes} WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT ?"
        while first is not None:
            rows = connection.query(part, [first, last, _LOOK_BACK], what="read changes")
            yield rows
            first = rows[-1][0] + 1 if len(rows) == _LOOK_BACK else None
