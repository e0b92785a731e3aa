"""Follows topics of changes, replays them into rows, and compares those with a database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tests.cluster.topics import TopicReader, payload
from tests.support.log_replay import PLACEHOLDER


class TopicFollower:
    """The values of one topic, parsed. A topic that does not exist yet has none."""

    def __init__(self, bootstrap: str, topic: str, *, isolation: str = "read_committed") -> None:
        self._reader = TopicReader(bootstrap, isolation=isolation)
        self._topic = topic
        self._values: list[Any] = []

    def values(self) -> list[Any]:
        """Reads on to the end of the topic; returns all values, None for tombstones."""
        self._values += [payload(record.value) for record in self._reader.new_records([self._topic])]
        return self._values

    def close(self) -> None:
        self._reader.close()


class ReplayedTables:
    """The rows that events add up to; ``keys`` are the primary keys of tables, empty without one."""

    def __init__(self, keys: Mapping[str, Sequence[str]]) -> None:
        self._keys = keys
        self._rows: dict[str, dict[Any, Mapping[str, Any]]] = {table: {} for table in keys}
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
            key = self._key(table, after)
            # Before its snapshot, a row may be unknown: then the placeholder stays.
            old = self._rows[table].get(key, {})
            self._rows[table][key] = {name: old.get(name, one) if one == PLACEHOLDER else one for name, one in after.items()}

    def _key(self, table: str, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self._keys[table])

    def differences(self, query: Callable[[str], Any], tables: Iterable[str], columns: str = "*") -> dict[str, Any]:
        """What is in the database alone, and in the replayed table alone, by table. ``query`` returns a statement's cursor."""
        found = {}
        for table in tables:
            cursor = query(f"SELECT {columns} FROM {table}")
            names = [column[0] for column in cursor.description]
            rows = Counter(_frozen(dict(zip(names, row, strict=True))) for row in cursor)
            replayed = +self._counts[table]
            if self._keys[table]:
                chosen = self._rows[table].values()
                replayed = Counter(_frozen(row if columns == "*" else {name: row[name] for name in names}) for row in chosen)
            if rows != replayed:
                found[table] = (list((rows - replayed).items())[:3], list((replayed - rows).items())[:3])
        return found


class ReplayedTopics:
    """The topics of tables, by the names of the tables, and the rows to which they replay."""

    def __init__(self, bootstrap: str, topics: Mapping[str, str], keys: Mapping[str, Sequence[str]]) -> None:
        """``keys``: of the tables to replay, as for :class:`ReplayedTables`."""
        self._followers = {table: TopicFollower(bootstrap, topic) for table, topic in topics.items()}
        self._tables = ReplayedTables(keys)
        self._applied = dict.fromkeys(keys, 0)

    def values(self, table: str) -> list[Any]:
        """All values of a table's topic."""
        return self._followers[table].values()

    def replay(self) -> ReplayedTables:
        """Applies the events that have come since the last call."""
        for table, applied in self._applied.items():
            values = self.values(table)
            for value in values[applied:]:
                if value is not None:
                    self._tables.apply(value)
            self._applied[table] = len(values)
        return self._tables

    def close(self) -> None:
        for follower in self._followers.values():
            follower.close()


def _frozen(row: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(row.items()))
