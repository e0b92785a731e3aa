"""Replays the records of a source and compares them, one by one, with what a second reader of the log has read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from connect.record import SourceRecord

Tables = dict[str, list[dict[str, str | None]]]
"""Rows by table, values as text."""
PLACEHOLDER = "__debezium_unavailable_value"

UNCHANGED = object()
"""A TOASTed value that the server does not send."""

Row = dict[str, Any]


@dataclass
class Change:
    """An insert (I), update (U), or delete (D); values are texts, None, or UNCHANGED."""

    kind: str
    table: str
    old: Row | None
    new: Row | None


@dataclass
class Truncate:
    tables: list[str]


@dataclass
class Alteration:
    """DDL, as the workload described it."""

    arguments: list[Any]


@dataclass
class LoggedTransaction:
    id: int | str
    items: list[Change | Truncate | Alteration] = field(default_factory=list)


class LookedUp(str):
    """A value that the log does not contain: the source read it from the table, which may be newer than the change."""


class Replay:
    """The tables as a consumer of the topics has them. A table's rows have keys as long as its records have."""

    def __init__(self, transaction_field: str, name_table: Callable[[str], str]) -> None:
        """``transaction_field`` of a source block has a transaction's ID; ``name_table`` returns the table of a topic."""
        self._transaction_field = transaction_field
        self._name_table = name_table
        self._rows: dict[str, list[Row]] = {}
        self._keys: dict[str, dict[tuple[Any, ...], Row]] = {}
        self._key_names: dict[str, tuple[str, ...]] = {}
        self.compared_records = 0
        self.compared_states = 0

    def load(self, records: list[SourceRecord]) -> None:
        """Loads the rows of the first snapshot."""
        for record in records:
            value = record.value.as_dict()
            assert value["op"] == "r"
            self._put(self._table(record), _key(record), _texts(value["after"]), None)

    def run(self, transactions: list[LoggedTransaction], records: list[SourceRecord], states: Mapping[Any, Tables]) -> None:
        """Checks that the records are exactly those of the transactions, and the tables at every commit with a known state."""
        emitted = iter(records)
        for transaction in transactions:
            for item in transaction.items:
                if isinstance(item, Alteration):
                    self._alter(*item.arguments)
                elif isinstance(item, Truncate):
                    self._truncate(item, transaction.id, emitted)
                else:
                    self._change(item, transaction.id, emitted)
            if (state := states.get(transaction.id)) is not None:
                self.compare(state, f"after transaction {transaction.id}")
        assert (extra := next(emitted, None)) is None, f"the topic has a record that is not in the log: {extra}"

    def compare(self, state: Tables, when: str) -> None:
        """Compares all rows with the database's."""
        self.compared_states += 1
        for table, expected in state.items():
            columns = sorted(expected[0]) if expected else []
            found = [{column: row.get(column) for column in columns} for row in self._rows_of(table)]
            assert len(found) == len(expected), f"{table} {when}: {len(found)} rows, but the database has {len(expected)}"
            key = [c for c in self._key_names.get(table, ()) if c in columns]
            order = key or columns
            pairs = zip(*(sorted(rows, key=lambda row: [str(row[c]) for c in order]) for rows in (found, expected)), strict=True)
            for ours, theirs in pairs:
                different = {
                    c: (ours[c], theirs[c]) for c in columns if not isinstance(ours[c], LookedUp) and ours[c] != theirs[c]
                }
                assert not different, f"{table} {when}: row {theirs} differs from the replayed one: {different}"
        for table in self._names().difference(state):
            assert not self._rows_of(table), f"{table} {when}: the database has no such table"

    def _table(self, record: SourceRecord) -> str:
        return self._name_table(record.topic)

    # --- records --------------------------------------------------------------------------------------------------------------

    def _next(self, emitted: Iterator[SourceRecord], id: int | str, what: Any) -> SourceRecord:
        record = next(emitted, None)
        assert record is not None, f"the topic ends before {what} of transaction {id}"
        self.compared_records += 1
        if record.value is not None:
            source = record.value.as_dict()["source"]
            assert source[self._transaction_field] == id, f"the topic has {record} instead of {what} of transaction {id}"
        return record

    def _truncate(self, item: Truncate, id: int | str, emitted: Iterator[SourceRecord]) -> None:
        for table in item.tables:
            record = self._next(emitted, id, item)
            assert (self._table(record), record.value["op"]) == (table, "t"), (record, item)
            self._rows.pop(table, None)
            self._keys.pop(table, None)

    def _change(self, change: Change, id: int | str, emitted: Iterator[SourceRecord]) -> None:
        record = self._next(emitted, id, change)
        assert record.value is not None, f"tombstone instead of {change}"
        value = record.value.as_dict()
        assert self._table(record) == change.table, (record, change)
        key, before, after = _key(record), value["before"], value["after"]
        if change.kind == "I":
            assert (value["op"], before) == ("c", None), (value, change)
            self._expect(after, change.new, change)
            self._put(change.table, key, _texts(after), None)
        elif change.kind == "D":
            self._expect_delete(record, change, id, emitted)
            self._remove(change.table, key, _texts(before))
        else:
            assert change.new is not None
            is_key_change = key is not None and change.old is not None and _key_differs(key, change)
            old: Row | None = None
            if is_key_change:
                self._expect_delete(record, change, id, emitted)
                old = self._remove(change.table, key, _texts(before))
                record = self._next(emitted, id, change)
                value = record.value.as_dict()
                key, after = _key(record), value["after"]
                assert (self._table(record), value["op"], value["before"]) == (change.table, "c", None), (value, change)
            else:
                assert value["op"] == "u", (value, change)
                if change.old is not None and len(change.old) == len(change.new):
                    self._expect(before, change.old, change)
                if key is None:
                    old = self._remove(change.table, None, _texts(before))
            self._expect(after, change.new, change, is_new=is_key_change)
            texts = _texts(after)
            for column, sent in change.new.items():
                if is_key_change and sent is UNCHANGED and texts[column] != PLACEHOLDER and old is not None:
                    texts[column] = texts[column] if texts[column] == old.get(column) else LookedUp(texts[column])
            self._put(change.table, key, texts, old)

    def _expect_delete(self, record: SourceRecord, change: Change, id: int | str, emitted: Iterator[SourceRecord]) -> None:
        value = record.value.as_dict()
        assert (value["op"], value["after"]) == ("d", None), (value, change)
        assert change.old is not None
        self._expect({name: value["before"][name] for name in change.old}, change.old, change)
        if record.key is not None:
            tombstone = self._next(emitted, id, change)
            assert tombstone.value is None, (tombstone, change)
            assert _key(tombstone) == _key(record)

    @staticmethod
    def _expect(found: Mapping[str, Any] | None, sent: Row | None, change: Change, *, is_new: bool = False) -> None:
        assert found is not None, change
        assert sent is not None, change
        texts = _texts(found)
        assert texts.keys() == sent.keys(), (texts, change)
        for column, value in sent.items():
            if value is UNCHANGED:
                assert is_new or texts[column] == PLACEHOLDER, (column, texts, change)
            else:
                assert texts[column] == value, (column, texts, change)

    # --- rows -----------------------------------------------------------------------------------------------------------------

    def _put(self, table: str, key: dict[str, Any] | None, row: Row, old: Row | None) -> None:
        """Stores a row; placeholders keep the value that the row had."""
        rows = self._index(table, key)
        if key is None:
            self._fill(row, old)
            self._rows.setdefault(table, []).append(row)
            return
        at = tuple(str(row[name]) for name in self._key_names[table])
        self._fill(row, old if old is not None else rows.get(at))
        rows[at] = row

    @staticmethod
    def _fill(row: Row, old: Row | None) -> None:
        for column, value in row.items():
            if value == PLACEHOLDER and old is not None:
                row[column] = old.get(column)

    def _remove(self, table: str, key: dict[str, Any] | None, before: Row) -> Row:
        rows = self._index(table, key)
        if key is not None:
            removed = rows.pop(tuple(str(key[name]) for name in self._key_names[table]), None)
        else:
            same = [row for row in self._rows.get(table, []) if all(row.get(c) == v for c, v in before.items())]
            removed = same[0] if same else None
            if removed is not None:
                self._rows[table].remove(removed)
        assert removed is not None, f"{table} has no row {key or before} to delete"
        return removed

    def _index(self, table: str, key: dict[str, Any] | None) -> dict[tuple[Any, ...], Row]:
        """Rows by key; changes the key if the records of the table have another one now."""
        names = () if key is None else tuple(key)
        if names != self._key_names.get(table, ()):
            rows = self._rows_of(table)
            self._rows.pop(table, None)
            self._keys.pop(table, None)
            self._key_names[table] = names
            if names:
                self._keys[table] = {tuple(str(row[name]) for name in names): row for row in rows}
                assert len(self._keys[table]) == len(rows), f"rows of {table} share a key {names}"
            else:
                self._rows[table] = rows
        return self._keys.setdefault(table, {}) if names else {}

    def _rows_of(self, table: str) -> list[Row]:
        return [*self._rows.get(table, []), *self._keys.get(table, {}).values()]

    def _names(self) -> set[str]:
        return {*self._rows, *self._keys}

    def _forget(self, table: str) -> list[Row]:
        rows = self._rows_of(table)
        self._rows.pop(table, None)
        self._keys.pop(table, None)
        self._key_names.pop(table, None)
        return rows

    # --- DDL ------------------------------------------------------------------------------------------------------------------

    def _alter(self, change: str, table: str, *arguments: Any) -> None:
        rows = self._rows_of(table)
        if change == "default":
            for row in rows:
                row[arguments[0]] = arguments[1]
        elif change == "drop_column":
            for row in rows:
                row.pop(arguments[0], None)
        elif change == "rename_column":
            for row in rows:
                row[arguments[1]] = row.pop(arguments[0], None)
        elif change == "rename_table":
            names = self._key_names.pop(table, ())
            self._forget(table)
            if names:
                self._key_names[arguments[0]] = names
                self._keys[arguments[0]] = {tuple(str(row[name]) for name in names): row for row in rows}
            else:
                self._rows[arguments[0]] = rows
        elif change == "drop_table":
            self._forget(table)
        elif "p" in self._names():  # the publication is one of roots
            self._move_partition(change, table, *arguments)

    def _move_partition(self, change: str, table: str, *bounds: int) -> None:
        if change == "attach":
            rows, to = self._forget(table), "p"
        else:
            low, high = bounds
            rows = [row for row in self._rows_of("p") if low <= int(row["region"]) < high]
            for row in rows:
                self._keys["p"] = {key: kept for key, kept in self._keys["p"].items() if kept is not row}
            to = table
        self._key_names.setdefault(to, ("id", "region"))
        rows_to = self._keys.setdefault(to, {})
        for row in rows:
            rows_to[tuple(str(row[name]) for name in self._key_names[to])] = row


def _key(record: SourceRecord) -> dict[str, Any] | None:
    return None if record.key is None else dict(record.key.as_dict())


def _key_differs(key: dict[str, Any], change: Change) -> bool:
    assert change.old is not None
    assert change.new is not None
    return any(name in change.old and change.old[name] != change.new[name] for name in key)


def _texts(row: Mapping[str, Any]) -> Row:
    return {name: None if value is None else str(value) for name, value in row.items()}
