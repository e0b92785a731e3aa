"""Queries of SQLite's catalog: tables with their columns and keys, and the columns of a query."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection

from connectors.jdbc.catalog import JdbcColumn, JdbcTable, TableStatistics
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.sql import Bind, Sql
from connectors.jdbc.table_name import TableName

_VIRTUAL_HIDDEN = 1
_GENERATED = (2, 3)
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/", re.DOTALL)
_AUTOINCREMENT = re.compile(r"\bAUTOINCREMENT\b", re.IGNORECASE)

_numbers = itertools.count(1)


def tables(session: DriverSession, kinds: Collection[str]) -> list[tuple[TableName, str]]:
    """Returns the tables and views of the main database. SQLite has no catalogs or schemas to filter by."""
    found: list[tuple[TableName, str]] = []
    rows = session.query(
        Sql("SELECT name, type FROM main.sqlite_master WHERE type IN ('table', 'view')"), "looking up the tables"
    )
    for name, kind in rows:
        shown = "SYSTEM TABLE" if name.startswith("sqlite_") else kind.upper()
        if shown in kinds:
            found.append((TableName(name), shown))
    return sorted(found, key=lambda entry: entry[0].name)


def describe(session: DriverSession, name: TableName) -> JdbcTable | None:
    """Describes a table or view, ignoring the case of ASCII letters, in the database named by ``schema`` (default: main)."""
    database = name.schema or "main"
    doing = f"looking up {name}"
    if name.schema is not None and not session.query(
        Sql("SELECT 1 FROM pragma_database_list() WHERE name = ", Bind(name.schema), " COLLATE NOCASE"), doing
    ):
        return None
    quoted = session.dialect.quote(database)
    rows = session.query(
        Sql(f"SELECT name, type, sql FROM {quoted}.sqlite_master WHERE type IN ('table', 'view') AND name = ",
            Bind(name.name), " COLLATE NOCASE"), doing,
    )  # fmt: skip
    if not rows:
        return None
    real, kind, sql = rows[0]
    columns = session.query(
        Sql(
            'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(', Bind(real), ", ", Bind(database), ")"
        ),
        doing,
    )
    autoincrement = bool(_AUTOINCREMENT.search(_QUOTED.sub(" ", sql or "")))
    keys = sorted((position, column) for column, _, _, _, position, _ in columns if position)
    alias = _rowid_alias(sql, [(column, type_name) for column, type_name, _, _, position, _ in columns if position])
    return JdbcTable(
        TableName(real, name.schema),
        tuple(
            JdbcColumn(
                column, type_name, nullable=not notnull, autoincrement=autoincrement and column == alias,
                has_default=default is not None or column == alias or hidden in _GENERATED, generated=hidden in _GENERATED,
            )
            for column, type_name, notnull, default, _, hidden in columns
            if hidden != _VIRTUAL_HIDDEN
        ),
        tuple(column for _, column in keys),
        kind.upper(),
        _unique_keys(session, real, database, doing),
    )  # fmt: skip


def _rowid_alias(sql: str | None, keys: list[tuple[str, str]]) -> str | None:
    """Returns the column that is an alias of the rowid, which SQLite fills in."""
    if len(keys) != 1 or keys[0][1].upper() != "INTEGER" or "WITHOUT ROWID" in " ".join((sql or "").upper().split()):
        return None
    return keys[0][0]


def _unique_keys(session: DriverSession, table: str, database: str, doing: str) -> tuple[tuple[str, ...], ...]:
    # A partial index, or one over an expression, cannot be a target of ON CONFLICT.
    of_index = ("pragma_index_info(i.name, ", Bind(database), ") AS c ")
    chosen = """WHERE i."unique" AND NOT i.partial AND i.origin <> 'pk' ORDER BY i.seq, c.seqno"""
    of_table = ("pragma_index_list(", Bind(table), ", ", Bind(database), ") AS i, ")
    rows = session.query(Sql("SELECT i.name, c.name FROM ", *of_table, *of_index, chosen), doing)
    found: dict[str, list[str | None]] = {}
    for index, column in rows:
        found.setdefault(index, []).append(column)
    return tuple(tuple(c for c in columns if c is not None) for columns in found.values() if None not in columns)


def query_columns(session: DriverSession, query: Sql) -> list[JdbcColumn]:
    """Returns the columns of a query with their declared types, which SQLite lists only for views. Expressions have no type."""
    name = f"temp.sluice_query_{next(_numbers)}"
    text = "".join(part if isinstance(part, str) else literal(part.value) for part in query.parts)
    session.execute(Sql(f"CREATE TEMP VIEW {name.partition('.')[2]} AS {text}"), "looking up the query's columns")
    try:
        rows = session.query(
            Sql("SELECT name, type FROM pragma_table_xinfo(", Bind(name.partition(".")[2]), ", 'temp')"),
            "looking up the query's columns",
        )
    finally:
        session.execute(Sql(f"DROP VIEW {name}"), "looking up the query's columns")
    return [JdbcColumn(column, type_name) for column, type_name in rows]


def literal(value: object) -> str:
    """Returns a value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return "9e999" if value == float("inf") else "-9e999" if value == float("-inf") else repr(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"x'{bytes(value).hex()}'"
    text = str(value)
    if "\0" in text:
        # A literal ends at NUL.
        return f"CAST(x'{text.encode().hex()}' AS TEXT)"
    return "'" + text.replace("'", "''") + "'"


_KEYED = """
SELECT m.name, EXISTS (SELECT 1 FROM pragma_table_xinfo(m.name) AS c WHERE c.pk > 0)
FROM main.sqlite_master AS m WHERE m.type = 'table'"""


def statistics(session: DriverSession) -> dict[TableName, TableStatistics]:
    """Returns which tables have a primary key. SQLite knows no counts without reading the tables."""
    rows = session.query(Sql(_KEYED), "looking up the keys of tables")
    return {TableName(name): TableStatistics(has_primary_key=bool(has_key)) for name, has_key in rows}
