"""What a database must be able to do for the source and the sink. All SQL text comes from here.

A dialect is made once a :class:`connectors.jdbc.connection.database.Database` and holds no connection; every method that talks
to the server takes a :class:`Session`. Errors of the driver leave a session only as the classes of :mod:`connectors.jdbc.errors`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from connect.data.schema import Schema
from connect.errors import ConfigError, ConnectError, DataError
from connect.suggestions import did_you_mean
from connectors.jdbc.catalog import Column, Table
from connectors.jdbc.dialects.lossless import Keeps
from connectors.jdbc.errors import Blame
from connectors.jdbc.options import InsertMode, ReadOptions, SinkField, WriteOptions
from connectors.jdbc.sql import Bind, Sql, joined
from connectors.jdbc.table_name import TableName, split_name
from connectors.jdbc.urls.connection_url import Target

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from connectors.jdbc.connection.database import Session

_PLAIN = re.compile(r"[^\W\d][\w$#]*")
"""A name that means itself without quotes."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that were read: ``values`` by row, in the order of the reader's fields, as Connect's values of their schemas.

    ``exact`` has, by row, the values of ``ReadOptions.exact``: int, ns since 1970 UTC for timestamps, None for null.
    """

    values: list[list[Any]]
    exact: list[tuple[int | None, ...]] | None = None


class RowReader(Protocol):
    """The rows of one query, read as the driver does it fastest, a part at a time. Not thread-safe."""

    fields: Sequence[tuple[str, Schema]]
    """Name and schema of each column. The same tuple object, with the same schemas, as long as the columns do not change."""

    def read(self, most: int) -> Rows:
        """The next rows, ``most`` at most; fewer does not mean the end, none does. Raises the failures of a session, and
        DataError for a value that cannot be converted, naming the column."""

    def close(self) -> None:
        """Ends the query, read to its end or not. May be called twice."""


class RowWriter(Protocol):
    """Writes rows into one table in one way."""

    def write(self, session: Session, rows: Sequence[Sequence[Any]]) -> None:
        """Writes all rows, given as Connect's values in the order of the fields, inside of the session's transaction.

        Raises RowRefusedError when the database refuses values, and DataError when a value does not fit its column; then nothing
        of this call happened, or the transaction can only be rolled back to a savepoint that the caller made before it.
        For upserts no two rows have the same key.
        """


class Dialect(ABC):
    """One kind of database. The base knows the SQL that most of them share."""

    name: ClassVar[str]
    paramstyle: ClassVar[str] = "format"
    transactional_ddl: ClassVar[bool] = False
    """Whether CREATE and ALTER are part of a transaction, rather than ending it."""
    savepoints: ClassVar[bool] = True
    """Whether a transaction can go back to a point within it. A sink without them writes a batch with bad rows in several."""
    releases_when_idle: ClassVar[bool] = False
    """Whether a source closes its connection when a query has ended, so that other processes can have the database."""
    most_parameters: ClassVar[int] = 30_000
    """How many values one statement may have."""

    def __init__(self, target: Target, *, quotes: bool = True) -> None:
        """``quotes`` False writes names bare (``quote.sql.identifiers=never``); only names that need no quotes can be used."""
        self.target = target
        self._quotes = quotes

    # --- names

    def quote(self, name: str) -> str:
        """A name as SQL. Raises ConfigError for one that cannot be written."""
        if "\0" in name or not name:
            raise ConfigError(f"{name!r} cannot be the name of a table or column")
        if self._quotes:
            return self._quoted(name)
        if not _PLAIN.fullmatch(name):
            raise ConfigError(
                f"{name!r} is a name that must be quoted, which quote.sql.identifiers=never forbids; set it to always"
            )
        return name

    def _quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def table_ref(self, table: TableName) -> str:
        """A table's whole name as SQL."""
        return ".".join(self.quote(part) for part in (table.catalog, table.schema, table.name) if part is not None)

    def parse_name(self, text: str) -> TableName:
        """A name from a configuration or a topic, quoted or not: one to three parts. Raises ConfigError."""
        parts = split_name(text)
        if len(parts) > 3:
            raise ConfigError(f"{text!r} is no name of a table: expected [catalog.][schema.]table")
        return TableName(*reversed(parts))

    # --- sessions

    def attach(self, engine: Engine, statement_timeout_ms: int) -> None:
        """Called once, before the first connection: listens to what a database needs besides :meth:`session_statements`."""
        return

    def attach_reader(self, engine: Engine) -> None:
        """Called after :meth:`attach` where nothing will be written."""
        return

    def session_statements(self, statement_timeout_ms: int) -> Sequence[str]:
        """What is run first on each new connection. A timeout of 0 is none."""
        return ()

    @abstractmethod
    def blame(self, error: BaseException) -> Blame:
        """What a driver's error is about."""

    def words(self, error: BaseException) -> str:
        """The database's own message in a driver's error."""
        return str(error).strip() or type(error).__name__

    def cancel(self, driver_connection: Any) -> None:
        """Ends what a connection does now; called from another thread. The base can't: the statement runs to its end."""
        return

    # --- the catalogue

    @abstractmethod
    def tables(
        self, session: Session, kinds: Collection[str], *, catalog: str | None = None, schema: str | None = None
    ) -> list[tuple[TableName, str]]:
        """All tables that the user can see, with their kind, sorted. Names are as whole as the originals' (PostgreSQL:
        schema.table; MySQL: database.table; SQLite: table). ``catalog`` and ``schema`` are JDBC patterns (% and _; "" means
        objects that have none; None does not narrow). Without tables of the system unless kinds has "SYSTEM TABLE"."""

    @abstractmethod
    def describe(self, session: Session, name: TableName) -> Table | None:
        """A table or view with its columns, or None where there is none. Parts of the name that are missing are found as the
        database does (search path, current database)."""

    def find(self, session: Session, name: TableName) -> Table:
        """The same, raising ConnectError that names what was looked for and the nearest tables."""
        table = self.describe(session, name)
        if table is not None:
            return table
        known = [str(found) for found, _ in self.tables(session, ("TABLE", "VIEW", "PARTITIONED TABLE"))]
        hint = did_you_mean(str(name), known, "; ") or f"; there are {', '.join(known[:10]) or 'no tables'}"
        raise ConnectError(f"There is no table {name} in {session.label}, or this user may not see it{hint}")

    def now(self, session: Session) -> int:
        """The database's clock, in ns since 1970 UTC."""
        raise ConnectError(f"{self.name} does not tell its time")

    # --- reading

    @abstractmethod
    def reader(self, session: Session, query: Sql, options: ReadOptions, table: Table | None = None) -> RowReader:
        """Runs a query. ``table`` is what it reads when it is ``SELECT`` from one table, so that nullability and types can be
        looked up; without it they come from the result. A column of a type that has no mapping raises DataError that names the
        column and its type."""

    @abstractmethod
    def timestamp(self, ns: int, column: Column | None, options: ReadOptions) -> Sql:
        """An instant (ns since 1970 UTC) to compare a timestamp column with, as exact as the column is."""

    def limited(self, query: Sql, rows: int) -> Sql:
        """The query's first rows alone."""
        return query + f" LIMIT {rows:d}"

    # --- creating and changing tables

    @abstractmethod
    def column_type(self, field: SinkField) -> str:
        """The type of a new column, as SQL. Raises DataError for a schema that the database has nothing for."""

    def create_table(self, name: TableName, fields: Sequence[SinkField]) -> Sql:
        """CREATE TABLE with the key fields as primary key."""
        lines: list[Sql] = [self._column_definition(field) for field in fields]
        keys = [self.quote(field.name) for field in fields if field.is_key]
        if keys:
            lines.append(Sql(f"PRIMARY KEY({','.join(keys)})"))
        return Sql(f"CREATE TABLE {self.table_ref(name)} (\n", joined(",\n", lines), ")")

    def add_columns(self, table: Table, fields: Sequence[SinkField]) -> list[Sql]:
        """ALTER TABLE that adds columns; one statement or several."""
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
        """The default value of a field's schema as SQL, for a column definition. Raises DataError for a type without literals."""

    # --- writing

    @abstractmethod
    def writer(self, table: Table, fields: Sequence[SinkField], mode: InsertMode, options: WriteOptions) -> RowWriter:
        """Writes records; fields with ``is_key`` are the key of upserts and updates. Raises UnsupportedError for a mode that the
        database has no statement for, and DataError for a field that has no column in the table or does not fit it."""

    @abstractmethod
    def deleter(self, table: Table, keys: Sequence[SinkField], options: WriteOptions) -> RowWriter:
        """Deletes the rows of keys. A key without a row is no error."""

    def keeps(self, column: Column) -> Keeps | None:
        """What is left of values in a column that the database rounds or cuts in silence, for ``conversion.strict``. None: it
        keeps or refuses them. ``column`` is of a table that :meth:`describe` gave."""
        return None

    def truncate(self, name: TableName) -> Sql:
        """Empties a table as part of the transaction, which TRUNCATE would end where CREATE does."""
        return Sql(f"{'TRUNCATE TABLE' if self.transactional_ddl else 'DELETE FROM'} {self.table_ref(name)}")

    # --- the statements that most databases share

    def insert_sql(self, table: TableName, columns: Sequence[str], marks: Sequence[Sql | Bind | str]) -> Sql:
        names = ",".join(self.quote(column) for column in columns)
        return Sql(f"INSERT INTO {self.table_ref(table)} ({names}) VALUES (", joined(",", marks), ")")

    def update_sql(self, table: TableName, columns: Sequence[str], keys: Sequence[str], marks: Sequence[Sql | Bind | str]) -> Sql:
        """``marks`` are those of the columns, then those of the keys."""
        if not columns:
            raise DataError(f"insert.mode=update of {table} has no columns to set: all fields are part of the key")
        places = iter(marks)
        changes = joined(", ", [Sql(f"{self.quote(column)} = ", next(places)) for column in columns])
        return Sql(f"UPDATE {self.table_ref(table)} SET ", changes, " WHERE ", self._where(keys, list(places)))

    def delete_sql(self, table: TableName, keys: Sequence[str], marks: Sequence[Sql | Bind | str]) -> Sql:
        return Sql(f"DELETE FROM {self.table_ref(table)} WHERE ", self._where(keys, marks))

    def _where(self, keys: Sequence[str], marks: Sequence[Sql | Bind | str]) -> Sql:
        return joined(" AND ", [Sql(f"{self.quote(key)} = ", mark) for key, mark in zip(keys, marks, strict=True)])


Convert = Callable[[Any], Any]
"""Makes one value another; None as a converter stands for the value as it is. Nulls are not given to it."""


def unsupported_type(table: TableName | None, column: Column, hint: str = "") -> DataError:
    """The error for a column whose type has no mapping."""
    where = f"{table}.{column.name}" if table is not None else column.name
    return DataError(
        f"Column {where} has type {column.type_name}, which has no counterpart in Connect"
        + (f"; {hint}" if hint else "; read it with a query that casts it to text, or leave it out (unsupported.columns=skip)")
    )
