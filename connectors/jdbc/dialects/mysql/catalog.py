"""Queries of the catalog of MySQL and MariaDB, ``information_schema``, which shows what the user has privileges for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from connectors.databases.mysql.built_in import BUILT_IN_DATABASES
from connectors.jdbc.catalog import JdbcColumn, JdbcTable, TableStatistics
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.sql import Bind, Sql
from connectors.jdbc.table_name import TableName


@dataclass(frozen=True, slots=True)
class MySqlColumnDetails:
    """The type of a column."""

    type: str
    """The type without length: ``int``, ``varchar``, ``datetime``."""
    unsigned: bool = False
    length: int | None = None
    """Characters or bytes of a text, bits of a BIT."""
    scale: int | None = None
    digits: int = 0
    """Fractional second digits of a time."""
    invisible: bool = False
    """Whether ``SELECT *`` omits it."""


# Table types of the JDBC drivers.
_TABLES = "SELECT table_schema, table_name, table_type FROM information_schema.tables"


def tables(
    session: DriverSession, kinds: Collection[str], catalog: str | None, schema: str | None
) -> list[tuple[TableName, str]]:
    """Returns the tables of these kinds in all databases. A database is a catalog in JDBC, without schemas; both patterns filter
    databases because users set either."""
    sql = Sql(_TABLES, " WHERE 1 = 1") + _matching("table_schema", catalog, schema)
    wanted = {kind.upper() for kind in kinds}
    found = []
    for space, name, type in session.query(sql, "looking up the tables"):
        kind = _kind(catalog_text(space), catalog_text(type))
        if kind in wanted:
            found.append((TableName(catalog_text(name), catalog_text(space)), kind))
    return sorted(found, key=lambda one: (one[0].schema or "", one[0].name))


def _matching(column: str, catalog: str | None, schema: str | None) -> Sql:
    """Returns the conditions of JDBC's patterns."""
    sql = Sql()
    for pattern in (catalog, schema or None):
        if pattern is not None:
            sql += Sql(f" AND {column} LIKE ", Bind(pattern))
    return sql


def _kind(space: str, type: str) -> str:
    system = space.lower() in BUILT_IN_DATABASES
    match type:
        case "BASE TABLE" | "SYSTEM VERSIONED":
            return "SYSTEM TABLE" if system else "TABLE"
        case "VIEW":
            return "SYSTEM VIEW" if system else "VIEW"
        case "TEMPORARY" | "LOCAL TEMPORARY":
            return "LOCAL TEMPORARY"
    return type


def catalog_text(value: Any) -> str:
    """Returns a catalog value as text. MySQL 8 returns some columns as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


# Only constants in the conditions: with others, old servers open all tables.
_TABLE = _TABLES + " WHERE table_name = "
_COLUMNS = (
    "SELECT column_name, data_type, column_type, is_nullable, column_default, extra, character_maximum_length, "
    "numeric_precision, numeric_scale, datetime_precision FROM information_schema.columns WHERE table_schema = "
)
# Indexes over a prefix or an expression do not count as unique keys.
_KEYS = "SELECT index_name, column_name, sub_part FROM information_schema.statistics WHERE non_unique = 0 AND table_schema = "


def describe(session: DriverSession, name: TableName) -> JdbcTable | None:
    """Describes a table or view; without a database, one of the connection's database."""
    doing = f"looking up {name}"
    query = Sql(_TABLE, Bind(name.name), " AND table_schema = ")
    query += Sql("DATABASE()") if name.schema is None else Sql(Bind(name.schema))
    found = [(catalog_text(space), catalog_text(own), catalog_text(type)) for space, own, type in session.query(query, doing)]
    # The catalog compares names without case; the server may not.
    exact = [one for one in found if one[1] == name.name and name.schema in (None, one[0])] or found
    if len(exact) != 1:
        return None
    space, own_name, type = exact[0]
    of_table = Sql(Bind(space), " AND table_name = ", Bind(own_name))
    columns = session.query(Sql(_COLUMNS, of_table, " ORDER BY ordinal_position"), doing)
    if not columns:
        return None  # it was dropped, or is a view of a dropped table
    primary, unique = _keys(session.query(Sql(_KEYS, of_table, " ORDER BY index_name, seq_in_index"), doing))
    return JdbcTable(TableName(own_name, space), tuple(map(_column, columns)), primary, _kind(space, type), unique)


def _column(row: Sequence[Any]) -> JdbcColumn:
    name, data_type, column_type, is_nullable, default, extra_words, length, precision, scale, digits = row
    type, type_name, extra = catalog_text(data_type).lower(), catalog_text(column_type), catalog_text(extra_words or "").lower()
    nullable = catalog_text(is_nullable) == "YES"
    increments = "auto_increment" in extra
    generated = any(word in extra for word in ("virtual generated", "stored generated", "persistent"))
    native = MySqlColumnDetails(
        type,
        "unsigned" in type_name.lower() or "zerofill" in type_name.lower(),
        int(precision) if type == "bit" else None if length is None else int(length),
        None if scale is None else int(scale),
        int(digits or 0),
        "invisible" in extra,
    )
    return JdbcColumn(
        catalog_text(name),
        type_name,
        nullable=nullable,
        autoincrement=increments,
        # MariaDB reports NULL as the default of a column whose default is null.
        has_default=increments
        or generated
        or (default is not None and not (nullable and catalog_text(default).upper() == "NULL")),
        generated=generated,
        native=native,
    )


def _keys(rows: Sequence[Sequence[Any]]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    indexes: dict[str, list[str]] = {}
    partial: set[str] = set()
    for index, column, part in rows:
        if column is None or (part is not None and catalog_text(index) != "PRIMARY"):
            partial.add(catalog_text(index))
        else:
            indexes.setdefault(catalog_text(index), []).append(catalog_text(column))
    whole = {index: tuple(columns) for index, columns in indexes.items() if index not in partial}
    return whole.pop("PRIMARY", ()), tuple(whole.values())


_STATISTICS = (
    "SELECT t.table_schema, t.table_name, t.table_rows, t.data_length + t.index_length, k.constraint_name "
    "FROM information_schema.tables t LEFT JOIN information_schema.table_constraints k ON k.table_schema = t.table_schema "
    "AND k.table_name = t.table_name AND k.constraint_type = 'PRIMARY KEY' "
    "WHERE t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') "
    f"AND t.table_schema NOT IN ({', '.join(map(repr, BUILT_IN_DATABASES))})"
)


def statistics(session: DriverSession, catalog: str | None, schema: str | None) -> dict[TableName, TableStatistics]:
    """Returns the storage engine's estimates."""
    sql = Sql(_STATISTICS) + _matching("t.table_schema", catalog, schema)
    return {
        TableName(catalog_text(name), catalog_text(space)): TableStatistics(
            None if rows is None else int(rows), None if size is None else int(size), key is not None
        )
        for space, name, rows, size, key in session.query(sql, "looking up the sizes of tables")
    }
