"""Replays events into tables, and compares them with a database."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class ReplayedTables:
    """The rows that events add up to; ``keys`` are the primary keys of tables, empty without one."""

    def __init__(self, keys: Mapping[str, Sequence[str]]) -> None:
        self._keys = keys
        self._rows: dict[str, dict[Any, Any]] = {table: {} for table in keys}
        self._counts: dict[str, Counter[Any]] = {table: Counter() for table in keys}

    def apply(self, value: Mapping[str, Any]) -> None:
        """Applies the value of an event."""
        table, before, after = value["source"]["table"], value["before"], value["after"]
        if not self._keys[table]:
            if before is not None:
                self._counts[table][_frozen(before)] -= 1
            if after is not None:
                self._counts[table][_frozen(after)] += 1
        elif value["op"] == "d":
            self._rows[table].pop(self._key(table, before), None)
        else:
            self._rows[table][self._key(table, after)] = _frozen(after)

    def _key(self, table: str, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self._keys[table])

    def rows(self, table: str) -> Counter[Any]:
        return +self._counts[table] if not self._keys[table] else Counter(self._rows[table].values())

    def differences(self, connection: sqlite3.Connection, tables: Iterable[str]) -> dict[str, Any]:
        """What is in the database alone, and in the replayed table alone, by table."""
        found = {}
        for table in tables:
            cursor = connection.execute(f"SELECT * FROM {table}")
            names = [column[0] for column in cursor.description]
            rows = Counter(_frozen(dict(zip(names, row, strict=True))) for row in cursor)
            replayed = self.rows(table)
            if rows != replayed:
                found[table] = (list((rows - replayed).items())[:3], list((replayed - rows).items())[:3])
        return found


def _frozen(row: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(row.items()))
