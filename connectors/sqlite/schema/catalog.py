"""Reads tables from the schema of the database."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final

from connectors.cdc.schema.filters import Filters
from connectors.sqlite.connection import SqliteConnection, quote_identifier

MAIN: Final = "main"
"""The schema of a database file."""
OWN_PREFIX: Final = "_sluice_"
"""What names of the connector's own tables and triggers begin with."""
COLLATIONS: Final = ("BINARY", "NOCASE", "RTRIM")
"""SQLite's own collations. Others exist only in the application."""
_ROWID_NAMES: Final = ("rowid", "_rowid_", "oid")
_VIRTUAL_HIDDEN: Final = 1


@dataclass(frozen=True, slots=True)
class SqliteColumn:
    """A column as declared. ``default`` is SQL."""

    name: str
    declared: str
    not_null: bool
    default: str | None


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """Columns that no two rows share, with their collations. Without columns it is the rowid."""

    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SqliteTable:
    """A table. ``key`` is the primary key, empty without one. ``rowid`` is a name of the rowid, None in a table without."""

    name: str
    columns: tuple[SqliteColumn, ...]
    key: tuple[str, ...]
    rowid: str | None
    is_strict: bool
    unique: tuple[UniqueKey, ...] = ()
    unseen_indexes: tuple[str, ...] = ()
    """Unique indexes on expressions, on some rows, or with a collation of the application: which rows they make REPLACE delete is
    unknown."""

    @property
    def schema(self) -> str:
        return MAIN

    def __str__(self) -> str:
        return f"{MAIN}.{self.name}"

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns by which the database finds a row: the rowid, or the primary key."""
        return self.key if self.rowid is None else (self.rowid,)


@dataclass(frozen=True, slots=True)
class TableCapture:
    """A structure of a table whose changes have the number ``id``. ``stored`` are the columns that changes have, in order."""

    id: int
    table: SqliteTable
    stored: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Captures:
    """Structures of tables: all by number, and those of today by the table's name."""

    by_id: Mapping[int, TableCapture]
    current: Mapping[str, TableCapture]


def dump_table(table: SqliteTable) -> str:
    """A table as the connector stores it in the database."""
    return json.dumps(asdict(table), ensure_ascii=False)


def load_table(text: str) -> SqliteTable:
    """Parses a table that :func:`dump_table` wrote."""
    found = json.loads(text)
    unique = tuple(UniqueKey(tuple((name, collation) for name, collation in key["columns"])) for key in found["unique"])
    return SqliteTable(
        found["name"],
        tuple(SqliteColumn(**column) for column in found["columns"]),
        tuple(found["key"]),
        found["rowid"],
        found["is_strict"],
        unique,
        tuple(found["unseen_indexes"]),
    )


def read_tables(connection: SqliteConnection, is_wanted: Callable[[str], bool]) -> list[SqliteTable]:
    """Reads the tables whose names are wanted, without views, virtual tables, and tables of SQLite or of connectors."""
    listed = connection.query(
        "SELECT name, type, wr, strict FROM pragma_table_list WHERE schema = 'main'", what="read the schema"
    )
    names = sorted(
        (str(name), bool(without_rowid), bool(strict))
        for name, type_, without_rowid, strict in listed
        if type_ == "table" and not name.startswith(("sqlite_", OWN_PREFIX)) and is_wanted(name)
    )
    return [_read_table(connection, *entry) for entry in names]


def read_captured_tables(connection: SqliteConnection, filters: Filters) -> list[SqliteTable]:
    """Reads the tables that are captured. A rowid that ``message.key.columns`` names is a column of its table."""
    return [_with_key_rowid(table, filters) for table in read_tables(connection, lambda name: filters.captures_table(MAIN, name))]


def _with_key_rowid(table: SqliteTable, filters: Filters) -> SqliteTable:
    key = filters.key_columns(MAIN, table.name) or ()
    if table.rowid is None or table.rowid not in key or table.rowid in table.column_names:
        return table
    return replace(table, columns=(*table.columns, SqliteColumn(table.rowid, "INTEGER", True, None)))


def _read_table(connection: SqliteConnection, name: str, without_rowid: bool, is_strict: bool) -> SqliteTable:
    listed = connection.query('SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)', [name])
    shown = [row for row in listed if row[5] != _VIRTUAL_HIDDEN]
    key = tuple(str(row[0]) for row in sorted((row for row in shown if row[4]), key=lambda row: int(row[4])))
    unique, unseen, key_index = _read_unique_keys(connection, name)
    taken = {str(row[0]).lower() for row in shown}
    rowid = None if without_rowid else next((alias for alias in _ROWID_NAMES if alias not in taken), None)
    # Only an INTEGER PRIMARY KEY has no index: it is the rowid.
    is_alias = not without_rowid and len(key) == 1 and not key_index
    if is_alias:
        rowid = key[0]
    columns = tuple(
        SqliteColumn(str(row[0]), str(row[1]), bool(row[2]) or bool(row[4] and (without_rowid or is_alias)), row[3])
        for row in shown
    )
    if rowid is not None:
        unique = (UniqueKey(()), *unique)
    return SqliteTable(name, columns, key, rowid, is_strict, unique, unseen)


def _read_unique_keys(connection: SqliteConnection, table: str) -> tuple[tuple[UniqueKey, ...], tuple[str, ...], bool]:
    """Unique keys; names of unique indexes that are no such keys; and whether the primary key has an index."""
    found: list[UniqueKey] = []
    unseen: list[str] = []
    has_key_index = False
    listed = connection.query('SELECT name, origin, partial FROM pragma_index_list(?) WHERE "unique" ORDER BY name', [table])
    for index, origin, is_partial in listed:
        has_key_index |= origin == "pk"
        columns = connection.query("SELECT name, coll FROM pragma_index_xinfo(?) WHERE key ORDER BY seqno", [index])
        if is_partial or any(name is None or str(collation).upper() not in COLLATIONS for name, collation in columns):
            unseen.append(str(index))
        else:
            found.append(UniqueKey(tuple((str(name), str(collation)) for name, collation in columns)))
    return tuple(found), tuple(unseen), has_key_index


def read_row_estimates(connection: SqliteConnection, tables: list[SqliteTable]) -> Mapping[str, int]:
    """Estimates rows by the highest rowid; tables without one are counted."""
    found: dict[str, int] = {}
    for table in tables:
        counted = "count(*)" if table.rowid is None else f"max({quote_identifier(table.rowid)})"
        sql = f"SELECT {counted} FROM {quote_identifier(table.name)}"
        found[table.name] = max(0, int(connection.value(sql) or 0))
    return found
