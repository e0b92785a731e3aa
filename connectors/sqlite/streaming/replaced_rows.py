"""Rows that REPLACE deletes without a trigger.

A BEFORE trigger logs the rows with which a new row conflicts: candidates. Nobody tells the trigger whether the statement then
replaces them, ignores the new row, or updates one of them. As long as a candidate exists, no other row can have its unique
values, so a later row of the same statement that has them says that the candidate is gone.

SQLite's clock, which counts milliseconds, stands still while a statement runs, so changes of one statement have the same time.
That a later statement has the same time, too, matters only if VACUUM ran in between, and gave the rowid of a candidate to another
row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from connectors.sqlite.schema.catalog import TableCapture, UniqueKey
from connectors.sqlite.triggers.ddl import FIXED_COLUMNS

Entry = Sequence[Any]
"""A row of the change table."""
_AT: Final = 3
_RID: Final = FIXED_COLUMNS - 1
_MOST_CANDIDATES: Final = 200
"""Of one statement that ignores rows; those that are to be replaced are the last ones."""
_Fingerprint = Callable[[Entry], tuple[Any, ...] | None]
_Rows = dict[Any, Any]
"""Identities of rows by their fingerprint."""


def _nocase(value: Any) -> Any:
    # SQLite folds ASCII only.
    return value.translate(_LOWER) if isinstance(value, str) else value


_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_COLLATIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "BINARY": lambda value: value,
    "NOCASE": _nocase,
    "RTRIM": lambda value: value.rstrip(" ") if isinstance(value, str) else value,
}


class ReplacedRows:
    """The candidates of one table."""

    def __init__(self, capture: TableCapture) -> None:
        table, stored = capture.table, capture.stored
        # An INTEGER PRIMARY KEY is the rowid, and an update has its old value, too.
        self._uses_rid = table.rowid is not None and table.key != (table.rowid,)
        self._identity = tuple(FIXED_COLUMNS + stored.index(name) for name in table.key)
        self._keys = [(self._fingerprint(key, stored), _Rows()) for key in table.unique]
        self._candidates: dict[Any, Entry] = {}
        self._at: Any = None
        """When the statement ran that all candidates are of."""

    def __bool__(self) -> bool:
        return bool(self._candidates)

    def _fingerprint(self, key: UniqueKey, stored: Sequence[str]) -> _Fingerprint:
        """Returns the values of a key as the database compares them; None if one is null, so that nothing conflicts."""
        if not key.columns:
            return lambda entry: (entry[_RID],)
        parts = [(FIXED_COLUMNS + stored.index(name), _COLLATIONS[collation.upper()]) for name, collation in key.columns]

        def values(entry: Entry) -> tuple[Any, ...] | None:
            if any(entry[at] is None for at, _ in parts):
                return None
            return tuple(fold(entry[at]) for at, fold in parts)

        return values

    def _row_of(self, entry: Entry, at: int = 0) -> Any:
        return entry[_RID] if self._uses_rid else tuple(entry[at + i] for i in self._identity)

    def add(self, candidate: Entry) -> None:
        """A new row conflicts with this row."""
        if candidate[_AT] != self._at:
            self._clear()
            self._at = candidate[_AT]
        row = self._row_of(candidate)
        self._remove(row)
        if len(self._candidates) >= _MOST_CANDIDATES:
            self._remove(next(iter(self._candidates)))
        self._candidates[row] = candidate
        for fingerprint, rows in self._keys:
            if (values := fingerprint(candidate)) is not None:
                rows[values] = row

    def forget(self, entry: Entry, at: int = 0) -> None:
        """A trigger has logged a change of the row: it was not replaced before. ``at`` is the offset of its old values."""
        self._remove(self._row_of(entry, at))

    def take(self, entry: Entry) -> list[Entry]:
        """Returns the candidates that a new row has replaced, and removes them."""
        if entry[_AT] != self._at:
            self._clear()  # the statement has ended without replacing them
            return []
        found = []
        for fingerprint, rows in self._keys:
            values = fingerprint(entry)
            if values is not None and values in rows and (candidate := self._remove(rows[values])) is not None:
                found.append(candidate)
        return found

    def _remove(self, row: Any) -> Entry | None:
        candidate = self._candidates.pop(row, None)
        if candidate is not None:
            for fingerprint, rows in self._keys:
                if (values := fingerprint(candidate)) is not None and rows.get(values) == row:
                    del rows[values]
        return candidate

    def _clear(self) -> None:
        self._candidates.clear()
        for _, rows in self._keys:
            rows.clear()
