"""SQL of the connector's tables and triggers.

The change table has one row per change. A change's values stay as they are stored, in columns without a type: that costs writers
half of what texts in JSON cost, and keeps every value exactly. An update has the new row, then the old row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from connectors.cdc.schema.filters import Filters
from connectors.sqlite.connection import quote_identifier
from connectors.sqlite.schema.catalog import MAIN, OWN_PREFIX, SqliteTable, TableCapture, UniqueKey

FIXED_COLUMNS: Final = 5
"""seq, tab, op, at, and rid come before the values."""
MOST_VALUES: Final = 1990
"""SQLite's limit is 2,000 columns, unless somebody has compiled another one."""
_NOW: Final = "julianday('now')"


class ChangeOperation(IntEnum):
    """What a row of the change table is."""

    START = 0
    """Says only that the sequence begins, so that the table is never empty."""
    INSERT = 1
    UPDATE = 2
    DELETE = 3
    CANDIDATE = 4
    """A row that the next insert or update of its table replaces, if that has the conflict resolution REPLACE, which fires no
    trigger for the row unless recursive_triggers is on."""
    LOSS = 5
    """The table was without triggers until now."""
    NEW_TABLE = 6
    """The table is captured from now on."""
    TOUCH = 7
    """The current state of a row that changed while the table had another structure than the triggers knew."""


@dataclass(frozen=True, slots=True)
class CaptureNames:
    """Names of a connector's objects."""

    prefix: str

    @classmethod
    def of(cls, capture_name: str) -> CaptureNames:
        """The names for a value of ``capture.name``."""
        return cls(f"{OWN_PREFIX}{capture_name}_" if capture_name else OWN_PREFIX)

    @property
    def changes(self) -> str:
        return f"{self.prefix}changes"

    @property
    def tables(self) -> str:
        return f"{self.prefix}tables"

    @property
    def state(self) -> str:
        return f"{self.prefix}state"

    def trigger(self, table_id: int, event: str) -> str:
        return f"{self.prefix}{table_id}_{event}"

    def is_trigger(self, name: str) -> bool:
        """Whether a trigger is one of these, not of a connector with a longer name."""
        table_id, _, event = name.removeprefix(self.prefix).partition("_")
        return name.startswith(self.prefix) and table_id.isdecimal() and event in EVENTS


EVENTS: Final = ("insert", "update", "delete", "replace", "move")


def stored_columns(table: SqliteTable, filters: Filters) -> tuple[str, ...]:
    """The columns that a change has: those that are captured, and those that identify rows."""
    needed = {*table.key, *(filters.key_columns(MAIN, table.name) or ())}
    needed.update(name for key in table.unique for name, _ in key.columns)
    return tuple(
        name for name in table.column_names if name in needed or filters.captures_column(MAIN, table.name, name)
    )  # fmt: skip


def create_tables(names: CaptureNames) -> list[str]:
    """Creates the connector's tables."""
    return [
        f"CREATE TABLE {names.state}(name TEXT PRIMARY KEY, value) WITHOUT ROWID",
        f"CREATE TABLE {names.tables}(id INTEGER PRIMARY KEY, name TEXT NOT NULL, structure TEXT NOT NULL, stored TEXT NOT NULL, "
        "ended_at INTEGER)",
        # Without AUTOINCREMENT, which costs writers another page: the row with the highest number is never deleted.
        f"CREATE TABLE {names.changes}(seq INTEGER PRIMARY KEY, tab, op, at, rid)",
    ]


def add_value_columns(names: CaptureNames, present: int, needed: int) -> list[str]:
    """Widens the change table."""
    return [f"ALTER TABLE {names.changes} ADD COLUMN v{i}" for i in range(present, needed)]


def create_triggers(names: CaptureNames, table_id: int, table: SqliteTable, stored: Sequence[str]) -> dict[str, str]:
    """The SQL of a table's triggers by name. Names of tables in triggers cannot have a schema."""
    name, width = quote_identifier(table.name), len(stored)
    new, old = [_of("NEW", column) for column in stored], [_of("OLD", column) for column in stored]
    head = f"{table_id}"

    def insert(operation: ChangeOperation, row: str, values: Iterable[str]) -> str:
        listed = list(values)
        columns = ", ".join(("tab", "op", "at", "rid", *(f"v{i}" for i in range(len(listed)))))
        rid = "NULL" if table.rowid is None else _of(row, table.rowid)
        return f"INSERT INTO {names.changes}({columns}) VALUES ({', '.join((head, str(int(operation)), _NOW, rid, *listed))});"

    def candidates(condition: str) -> str:
        columns = ", ".join(("tab", "op", "at", "rid", *(f"v{i}" for i in range(width))))
        rid = "NULL" if table.rowid is None else quote_identifier(table.rowid)
        values = ", ".join((head, str(int(ChangeOperation.CANDIDATE)), _NOW, rid, *map(quote_identifier, stored)))
        return f"INSERT INTO {names.changes}({columns}) SELECT {values} FROM {name} WHERE {condition};"

    def trigger(event: str, when: str, body: str, condition: str = "") -> tuple[str, str]:
        title = names.trigger(table_id, event)
        return title, f"CREATE TRIGGER {title} {when} ON {name} FOR EACH ROW {condition}BEGIN {body} END"

    found = [
        trigger("insert", "AFTER INSERT", insert(ChangeOperation.INSERT, "NEW", new)),
        trigger("update", "AFTER UPDATE", insert(ChangeOperation.UPDATE, "NEW", [*new, *old])),
        trigger("delete", "AFTER DELETE", insert(ChangeOperation.DELETE, "OLD", old)),
    ]
    if table.unique:
        conflict = " OR ".join(f"({_conflict(key, table)})" for key in table.unique)
        found.append(
            trigger("replace", "BEFORE INSERT", candidates(conflict), f"WHEN EXISTS (SELECT 1 FROM {name} WHERE {conflict}) ")
        )
        # UPDATE OR REPLACE deletes other rows than its own.
        is_own = " AND ".join(f"{quote_identifier(column)} IS {_of('OLD', column)}" for column in table.identity)
        moved = " OR ".join(
            f"{_of('NEW', column)} IS NOT {_of('OLD', column)}" for column in sorted(_unique_columns(table))
        )  # fmt: skip
        others = f"({conflict}) AND NOT ({is_own})"
        condition = f"WHEN ({moved}) AND EXISTS (SELECT 1 FROM {name} WHERE {others}) "
        found.append(trigger("move", "BEFORE UPDATE", candidates(others), condition))
    return dict(found)


def touch_rows(names: CaptureNames, capture: TableCapture, before: TableCapture) -> str:
    """Adds the current state of the rows that changes of the structure ``before`` concern, after the sequence ``?``."""
    table = capture.table
    columns = ", ".join(("tab", "op", "at", "rid", *(f"v{i}" for i in range(len(capture.stored)))))
    rid = "NULL" if table.rowid is None else f"t.{quote_identifier(table.rowid)}"
    stored = (f"t.{quote_identifier(column)}" for column in capture.stored)
    values = ", ".join((str(capture.id), str(int(ChangeOperation.TOUCH)), _NOW, rid, *stored))
    if table.rowid is not None:
        identity, changed = rid, "c.rid"
    else:
        # ALTER TABLE renames columns of a primary key, but keeps their places.
        identity = ", ".join(f"t.{quote_identifier(column)}" for column in table.key)
        changed = ", ".join(f"c.v{before.stored.index(column)}" for column in before.table.key)
    kinds = f"{int(ChangeOperation.INSERT)}, {int(ChangeOperation.UPDATE)}, {int(ChangeOperation.TOUCH)}"
    # IN reads the changes once, and looks rows up by their keys; EXISTS would read the changes for each row of the table.
    return (
        f"INSERT INTO {names.changes}({columns}) SELECT {values} FROM {quote_identifier(table.name)} t WHERE ({identity}) IN "
        f"(SELECT {changed} FROM {names.changes} c WHERE c.tab = {before.id} AND c.seq > ? AND c.op IN ({kinds}))"
    )


def _of(row: str, column: str) -> str:
    return f"{row}.{quote_identifier(column)}"


def _unique_columns(table: SqliteTable) -> set[str]:
    found = {name for key in table.unique for name, _ in key.columns}
    return found | ({table.rowid} if table.rowid is not None else set())


def _conflict(key: UniqueKey, table: SqliteTable) -> str:
    """The condition that a row of the table has the new row's values in a unique key. Nulls never conflict."""
    if not key.columns:
        assert table.rowid is not None
        return f"{quote_identifier(table.rowid)} = {_of('NEW', table.rowid)}"
    return " AND ".join(
        f"{quote_identifier(name)} = {_of('NEW', name)} COLLATE {quote_identifier(collation)}" for name, collation in key.columns
    )
