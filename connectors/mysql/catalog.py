"""Reads the catalog: databases and tables, without views and the server's own databases."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from connectors.databases.mysql.built_in import BUILT_IN_DATABASES
from connectors.mysql.connection import MySqlConnection, quote_name, quote_value
from connectors.mysql.errors import MySqlServerError

_MOST_IN_QUERY: Final = 500
_MISSING: Final = (1049, 1146)
"""Unknown database or table."""
_UNKNOWN_COLUMN: Final = 1054
"""MariaDB before 10.10."""


@dataclass(frozen=True, slots=True)
class DatabaseInfo:
    """A database, with the defaults of its tables."""

    name: str
    charset: str
    collation: str


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table. ``rows`` and ``size_bytes``, without indexes, are the server's estimates; None and 0 if it has none."""

    database: str
    name: str
    engine: str | None
    rows: int | None
    size_bytes: int = 0

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


def read_databases(connection: MySqlConnection) -> list[DatabaseInfo]:
    """Reads the databases that the user may see."""
    rows = connection.query(
        "SELECT schema_name, default_character_set_name, default_collation_name FROM information_schema.schemata ORDER BY 1"
    )
    found = [DatabaseInfo(str(row[0]), str(row[1]), str(row[2])) for row in rows]
    return [database for database in found if database.name.lower() not in BUILT_IN_DATABASES]


def read_tables(connection: MySqlConnection, databases: Collection[str] | None = None) -> list[TableInfo]:
    """Reads the tables of some databases, or of all. Without views, sequences, and temporary tables."""
    if databases is not None and not databases:
        return []
    only = "" if databases is None else f" AND table_schema IN ({_list(databases)})"
    rows = connection.query(
        "SELECT table_schema, table_name, engine, table_rows, data_length FROM information_schema.tables "
        f"WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED'){only} ORDER BY 1, 2"
    )
    return [
        TableInfo(str(row[0]), str(row[1]), row[2], None if row[3] is None else int(row[3]), int(row[4] or 0))
        for row in rows
        if str(row[0]).lower() not in BUILT_IN_DATABASES
    ]


def read_primary_keys(connection: MySqlConnection, tables: Sequence[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Reads the columns of the primary keys of tables (database, name), in their order; tables without one are missing."""
    found: dict[tuple[str, str], list[str]] = {}
    for named in _named(tables):
        for database, name, column in connection.query(
            "SELECT table_schema, table_name, column_name FROM information_schema.statistics WHERE index_name = 'PRIMARY' "
            f"AND {named} ORDER BY table_schema, table_name, seq_in_index"
        ):
            found.setdefault((str(database), str(name)), []).append(str(column))
    return {table: tuple(columns) for table, columns in found.items()}


def read_column_orders(
    connection: MySqlConnection, tables: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], dict[str, tuple[str, ...]]]:
    """Reads on what the order of columns depends besides their types, by table (database, name) and column: the character set and
    the collation, and for ENUM and SET the declaration with its values. Columns without any of it are missing."""
    found: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
    for named in _named(tables):
        for database, name, column, *order in connection.query(
            "SELECT table_schema, table_name, column_name, character_set_name, collation_name, "
            "IF(data_type IN ('enum', 'set'), column_type, '') FROM information_schema.columns "
            f"WHERE collation_name IS NOT NULL AND {named}"
        ):
            found.setdefault((str(database), str(name)), {})[str(column)] = tuple(text or "" for text in order)
    return found


def _named(tables: Sequence[tuple[str, str]]) -> Iterator[str]:
    """SQL conditions for tables, each for as many as a query may have. MariaDB opens no others for that of a single table."""
    if len(tables) == 1:
        ((database, name),) = tables
        yield f"table_schema = {quote_value(database)} AND table_name = {quote_value(name)}"
        return
    for start in range(0, len(tables), _MOST_IN_QUERY):
        part = tables[start : start + _MOST_IN_QUERY]
        pairs = ", ".join(f"({quote_value(database)}, {quote_value(name)})" for database, name in part)
        yield f"(table_schema, table_name) IN ({pairs})"


def read_collations(connection: MySqlConnection) -> dict[int, str]:
    """Reads the character sets of collations by their numbers, which the binary log has."""
    # MariaDB has collations of several character sets, with a number for each.
    table = "collation_character_set_applicability" if connection.is_mariadb else "collations"
    try:
        rows = connection.query(f"SELECT id, character_set_name FROM information_schema.{table} WHERE id IS NOT NULL")
    except MySqlServerError as e:
        if e.number != _UNKNOWN_COLUMN:
            raise
        rows = connection.query("SELECT id, character_set_name FROM information_schema.collations")
    return {int(row[0]): row[1] for row in rows if row[0] is not None and row[1] is not None}


def read_create_table(connection: MySqlConnection, database: str, name: str) -> str | None:
    """Returns the statement that creates a table; None if there is no such table."""
    try:
        return str(connection.query(f"SHOW CREATE TABLE {quote_name(database, name)}")[0][1])
    except MySqlServerError as e:
        if e.number in _MISSING:
            return None
        raise


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(quote_value, names))
