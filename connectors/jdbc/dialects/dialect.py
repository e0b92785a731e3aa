"""The interface of a dialect: what the source and the sinks need of a database. All SQL text comes from here.

Each :class:`connectors.jdbc.database.Database` creates one dialect, which holds no connection; every method that talks to the
server takes a session. Driver errors leave a session only as the classes of :mod:`connectors.jdbc.errors`.
"""

from __future__ import annotations

import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from connect.data.schema import Schema
from connect.errors import ConfigError, ConnectError, DataError
from connect.suggestions import did_you_mean
from connectors.jdbc.catalog import JdbcColumn, JdbcTable, TableStatistics
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects.column_limits import ColumnLimits
from connectors.jdbc.errors import ErrorKind
from connectors.jdbc.options import InsertMode, ReadOptions, SinkField, WriteOptions
from connectors.jdbc.sql import Bind, Sql, joined
from connectors.jdbc.table_name import TableName, split_name
from connectors.jdbc.urls.connection_url import ConnectionTarget

if TYPE_CHECKING:
    from sqlalchemy import Engine


_PLAIN = re.compile(r"[^\W\d][\w$#]*")
"""A name that needs no quotes."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows read by a query: ``values`` holds each row as Connect values, in the order of the reader's fields.

    ``exact`` holds, for each row, the values of ``ReadOptions.exact``: int, ns since 1970 UTC for timestamps, None for null.
    """

    values: list[list[Any]]
    exact: list[tuple[int | None, ...]] | None = None


class RowReader(Protocol):
    """Reads the rows of one query in parts, the fastest way that the driver has. Not thread-safe."""

    fields: Sequence[tuple[str, Schema]]
    """Name and schema of each column; the same schema objects as long as the columns do not change."""

    def read(self, max_rows: int) -> Rows:
        """Returns the next rows, at most ``max_rows``. Only an empty batch means the end. Raises the errors of a session, and
        DataError, naming the column, for a value that cannot be converted."""

    def close(self) -> None:
        """Ends the query, even before its last row. May be called twice."""


class RowWriter(Protocol):
    """Writes rows into one table with one kind of statement."""

    def write(self, session: DriverSession, rows: Sequence[Sequence[Any]]) -> None:
        """Writes all rows, given as Connect values in the order of the fields, within the session's transaction.

        Raises RowRejectedError if the database rejects values, and DataError if a value does not fit its column. Then either
        nothing was written, or the caller must roll back to a savepoint that it set before. The rows of an upsert have different
        keys.
        """


class Dialect(ABC):
    """One kind of database. The base class has the SQL that most databases share."""

    name: ClassVar[str]
    paramstyle: ClassVar[str] = "format"
    transactional_ddl: ClassVar[bool] = False
    """Whether CREATE and ALTER are part of a transaction instead of ending it."""
    savepoints: ClassVar[bool] = True
    """Whether the database has savepoints. Without them, a sink splits a batch that has bad rows into several transactions."""
    releases_when_idle: ClassVar[bool] = False
    """Whether a source closes its connection after each query so that other processes can use the database."""
    max_parameters: ClassVar[int] = 30_000
    """Maximum number of values in one statement."""

    def __init__(self, target: ConnectionTarget, *, quotes: bool = True) -> None:
        """``quotes=False`` (``quote.sql.identifiers=never``) allows only names that need no quotes."""
        self.target = target
        self._quotes = quotes

    # --- names

    def quote(self, name: str) -> str:
        """Returns a name as SQL. Raises ConfigError if it cannot be written."""
        if "\0" in name or not name:
            raise ConfigError(f"{name!r} is not a valid name of a table or column")
        if self._quotes:
            return self._quoted(name)
        if not _PLAIN.fullmatch(name):
            raise ConfigError(f"{name!r} must be quoted, but quote.sql.identifiers is never; set it to always")
        return name

    def _quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def table_ref(self, table: TableName) -> str:
        """Returns the qualified name of a table as SQL."""
        return ".".join(self.quote(part) for part in (table.catalog, table.schema, table.name) if part is not None)

    def parse_name(self, text: str) -> TableName:
        """Parses a name of one to three parts, quoted or not, from a config or a topic. Raises ConfigError."""
        parts = split_name(text)
        if len(parts) > 3:
            raise ConfigError(f"{text!r} is not a table name: expected [catalog.][schema.]table")
        return TableName(*reversed(parts))

    # --- sessions

    def attach(self, engine: Engine, statement_timeout_ms: int) -> None:
        """Prepares the engine before the first connection, in ways that :meth:`session_statements` cannot."""
        return

    def attach_reader(self, engine: Engine) -> None:
        """Prepares the engine of a connector that only reads. Called after :meth:`attach`."""
        return

    def session_statements(self, statement_timeout_ms: int) -> Sequence[str]:
        """Returns the statements that start each new connection. A timeout of 0 means none."""
        return ()

    @abstractmethod
    def classify(self, error: BaseException) -> ErrorKind:
        """Returns the cause of a driver's error."""

    def error_message(self, error: BaseException) -> str:
        """Returns the database's own message in a driver's error."""
        return str(error).strip() or type(error).__name__

    def cancel(self, driver_connection: Any) -> None:
        """Cancels the running statement of a connection; called from another thread. By default, the statement runs to its
        end."""
        return

    # --- catalog

    @abstractmethod
    def tables(
        self, session: DriverSession, kinds: Collection[str], *, catalog: str | None = None, schema: str | None = None
    ) -> list[tuple[TableName, str]]:
        """Returns all tables that the user can see, with their kind, sorted. Names are qualified as in Confluent's and Aiven's
        connectors (PostgreSQL: schema.table; MySQL: database.table; SQLite: table). ``catalog`` and ``schema`` are JDBC patterns
        (% and _; "" selects objects without one; None selects all). System tables only if kinds has "SYSTEM TABLE"."""

    def statistics(
        self, session: DriverSession, *, catalog: str | None = None, schema: str | None = None
    ) -> Mapping[TableName, TableStatistics]:
        """Returns estimates and keys of tables, as :meth:`tables` names them with the same patterns, with one query. Empty if the
        database has no such catalog."""
        return {}

    @abstractmethod
    def describe(self, session: DriverSession, name: TableName) -> JdbcTable | None:
        """Returns a table or view with its columns, or None if it does not exist. The database resolves missing parts of the
        name (search path, current database)."""

    def find(self, session: DriverSession, name: TableName) -> JdbcTable:
        """The same, but raises ConnectError, with the nearest table names, if the table does not exist."""
        table = self.describe(session, name)
        if table is not None:
            return table
        known = [str(found) for found, _ in self.tables(session, ("TABLE", "VIEW", "PARTITIONED TABLE"))]
        hint = did_you_mean(str(name), known, "; ") or f"; visible tables: {', '.join(known[:10]) or 'none'}"
        raise ConnectError(f"Table {name} does not exist in {session.label}, or this user may not see it{hint}")

    def now(self, session: DriverSession) -> int:
        """Returns the database's current time in ns since 1970 UTC."""
        raise ConnectError(f"the current time of {self.name} is not available")

    # --- reading

    @abstractmethod
    def reader(self, session: DriverSession, query: Sql, options: ReadOptions, table: JdbcTable | None = None) -> RowReader:
        """Runs a query. If it selects from one table, pass that as ``table`` for nullability and types; otherwise they come from
        the result. Raises DataError, naming the column and its type, for a type that has no mapping."""

    @abstractmethod
    def timestamp(self, ns: int, column: JdbcColumn | None, options: ReadOptions) -> Sql:
        """Returns an instant (ns since 1970 UTC) as SQL to compare a timestamp column with, as precise as the column."""

    def limited(self, query: Sql, rows: int) -> Sql:
        """Returns the query limited to its first rows."""
        return query + f" LIMIT {rows:d}"

    # --- creating and changing tables

    @abstractmethod
    def column_type(self, field: SinkField) -> str:
        """Returns the SQL type of a new column. Raises DataError if the database has no type for the schema."""

    def create_table(self, name: TableName, fields: Sequence[SinkField]) -> Sql:
        """Returns CREATE TABLE with the key fields as primary key."""
        lines: list[Sql] = [self._column_definition(field) for field in fields]
        keys = [self.quote(field.name) for field in fields if field.is_key]
        if keys:
            lines.append(Sql(f"PRIMARY KEY({','.join(keys)})"))
        return Sql(f"CREATE TABLE {self.table_ref(name)} (\n", joined(",\n", lines), ")")

    def add_columns(self, table: JdbcTable, fields: Sequence[SinkField]) -> list[Sql]:
        """Returns the ALTER TABLE statements that add columns."""
        added = joined(",\n", [Sql("ADD ", self._column_definition(field)) for field in fields])
        return [Sql(f"ALTER TABLE {self.table_ref(table.name)} ", added)]

    def _column_definition(self, field: SinkField) -> Sql:
        head = f"{self.quote(field.name)} {field.sql_type or self.column_type(field)}"
        if field.schema.default is not None:
            tail = " NOT NULL" if field.refuses_null and not field.schema.optional else ""
            return Sql(f"{head} DEFAULT {self.literal(field)}{tail}")
        return Sql(f"{head} NULL" if field.schema.optional and not field.is_key else f"{head} NOT NULL")

    @abstractmethod
    def literal(self, field: SinkField) -> str:
        """Returns the default value of a field's schema as SQL. Raises DataError for a type without literals."""

    # --- writing

    @abstractmethod
    def writer(self, table: JdbcTable, fields: Sequence[SinkField], mode: InsertMode, options: WriteOptions) -> RowWriter:
        """Returns a writer of records. Fields with ``is_key`` are the key of upserts and updates. Raises UnsupportedError for a
        mode without a statement in this database, and DataError for a field that has no column or does not fit it."""

    @abstractmethod
    def deleter(self, table: JdbcTable, keys: Sequence[SinkField], options: WriteOptions) -> RowWriter:
        """Returns a writer that deletes the rows of keys. A key without a row is not an error."""

    def column_limits(self, column: JdbcColumn) -> ColumnLimits | None:
        """X"""
        return None

    def truncate(self, name: TableName) -> Sql:
        """Returns the statement that empties a table within the transaction; TRUNCATE may end it, as CREATE may."""
        return Sql(f"{'TRUNCATE TABLE' if self.transactional_ddl else 'DELETE FROM'} {self.table_ref(name)}")

    # --- statements that most databases share

    def insert_sql(self, table: TableName, columns: Sequence[str], marks: Sequence[Sql | Bind | str]) -> Sql:
        names = ",".join(self.quote(column) for column in columns)
        return Sql(f"INSERT INTO {self.table_ref(table)} ({names}) VALUES (", joined(",", marks), ")")

    def update_sql(self, table: TableName, columns: Sequence[str], keys: Sequence[str], marks: Sequence[Sql | Bind | str]) -> Sql:
        """``marks`` has the marks of the columns, then those of the keys."""
        if not columns:
            raise DataError(f"insert.mode=update of {table} has no columns to set because all fields are part of the key")
        remaining = iter(marks)
        changes = joined(", ", [Sql(f"{self.quote(column)} = ", next(remaining)) for column in columns])
        return Sql(f"UPDATE {self.table_ref(table)} SET ", changes, " WHERE ", self._where(keys, list(remaining)))

    def delete_sql(self, table: TableName, keys: Sequence[str], marks: Sequence[Sql | Bind | str]) -> Sql:
        return Sql(f"DELETE FROM {self.table_ref(table)} WHERE ", self._where(keys, marks))

    def _where(self, keys: Sequence[str], marks: Sequence[Sql | Bind | str]) -> Sql:
        return joined(" AND ", [Sql(f"{self.quote(key)} = ", mark) for key, mark in zip(keys, marks, strict=True)])


Convert = Callable[[Any], Any]
"""Converts a value that is not null. A converter of None leaves values as they are."""


def unsupported_type(table: TableName | None, column: JdbcColumn, hint: str = "") -> DataError:
    """Builds the error for a column whose type has no mapping."""
    where = f"{table}.{column.name}" if table is not None else column.name
    return DataError(
        f"Column {where} has type {column.type_name}, which has no mapping"
        + (f"; {hint}" if hint else "; read it with a query that casts it to text, or omit it (unsupported.columns=skip)")
    )


_DIALECTS: dict[str, tuple[str, str]] = {
    "postgresql": ("connectors.jdbc.dialects.postgres", "PostgresDialect"),
    "cockroachdb": ("connectors.jdbc.dialects.postgres", "PostgresDialect"),
    "mysql": ("connectors.jdbc.dialects.mysql", "MySqlDialect"),
    "mariadb": ("connectors.jdbc.dialects.mysql", "MySqlDialect"),
    "sqlite": ("connectors.jdbc.dialects.sqlite", "SqliteDialect"),
    "duckdb": ("connectors.jdbc.dialects.duckdb", "DuckDbDialect"),
    "mssql": ("connectors.jdbc.dialects.sqlserver", "SqlServerDialect"),
    "oracle": ("connectors.jdbc.dialects.oracle", "OracleDialect"),
}
"""Module and class by SQLAlchemy's backend name. All other databases use the generic dialect."""

_GENERIC = ("connectors.jdbc.dialects.generic", "GenericDialect")


def create_dialect(target: ConnectionTarget, *, quotes: bool) -> Dialect:
    """Creates the dialect for a target."""
    module, name = _DIALECTS.get(target.url.get_backend_name(), _GENERIC)
    dialect: Dialect = getattr(importlib.import_module(module), name)(target, quotes=quotes)
    return dialect
