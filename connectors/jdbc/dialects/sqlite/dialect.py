"""The dialect of SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import sqlalchemy

from connect.data.schema import Type
from connect.errors import DataError, UnsupportedError
from connectors.jdbc.catalog import JdbcColumn, JdbcTable, TableStatistics
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects.column_limits import ColumnLimits
from connectors.jdbc.dialects.dialect import Dialect, RowReader, RowWriter
from connectors.jdbc.dialects.logical_types import FieldKind, TemporalForm, logical_type
from connectors.jdbc.dialects.sqlite import catalog as system_catalog
from connectors.jdbc.dialects.sqlite.column_limits import column_limits
from connectors.jdbc.dialects.sqlite.reader import SqliteReader, WidestStorage
from connectors.jdbc.dialects.sqlite.statement_timeout import SqliteStatementTimer
from connectors.jdbc.dialects.sqlite.temporal import comparable_sql
from connectors.jdbc.dialects.sqlite.types import parse_declared_type
from connectors.jdbc.dialects.sqlite.writer import SqliteWriter, rows_converter, value_converter
from connectors.jdbc.errors import FULL, ErrorKind, with_hint
from connectors.jdbc.options import InsertMode, ReadOptions, SinkField, WriteOptions
from connectors.jdbc.sql import Bind, Sql, joined
from connectors.jdbc.table_name import TableName
from connectors.jdbc.urls.connection_url import ConnectionTarget

if TYPE_CHECKING:
    from sqlalchemy import Engine

_UPSERT_SINCE = (3, 24, 0)

_KINDS_BY_NUMBER = {
    sqlite3.SQLITE_BUSY: ErrorKind.TRANSIENT,
    sqlite3.SQLITE_LOCKED: ErrorKind.TRANSIENT,
    sqlite3.SQLITE_PROTOCOL: ErrorKind.TRANSIENT,
    sqlite3.SQLITE_SCHEMA: ErrorKind.TRANSIENT,
    sqlite3.SQLITE_CONSTRAINT: ErrorKind.ROW,
    sqlite3.SQLITE_MISMATCH: ErrorKind.ROW,
    sqlite3.SQLITE_TOOBIG: ErrorKind.ROW,
    sqlite3.SQLITE_INTERRUPT: ErrorKind.TIMEOUT,
    sqlite3.SQLITE_IOERR: ErrorKind.CONNECTION,
}
_GONE = ("no such table", "no such column", "has no column named")
"""SQLite has one code for all errors in statements, so these are detected by their messages."""

_TYPES = {
    Type.BOOLEAN: "INTEGER",
    Type.INT8: "INTEGER",
    Type.INT16: "INTEGER",
    Type.INT32: "INTEGER",
    Type.INT64: "INTEGER",
    Type.FLOAT32: "REAL",
    Type.FLOAT64: "REAL",
    Type.STRING: "TEXT",
    Type.BYTES: "BLOB",
}


class SqliteDialect(Dialect):
    name: ClassVar[str] = "SQLite"
    paramstyle: ClassVar[str] = "qmark"
    transactional_ddl: ClassVar[bool] = True
    max_parameters: ClassVar[int] = 32_766

    def __init__(self, target: ConnectionTarget, *, quotes: bool = True) -> None:
        super().__init__(target, quotes=quotes)
        self._widest_storage: WidestStorage = {}
        self._write_options = WriteOptions()
        self.timer = SqliteStatementTimer(0)

    # --- sessions

    def attach(self, engine: Engine, statement_timeout_ms: int) -> None:
        begin: dict[str, str] = {"text": "BEGIN"}
        self.timer = SqliteStatementTimer(statement_timeout_ms)

        def arguments(_dialect: Any, _record: Any, _args: list[Any], named: dict[str, Any]) -> None:
            # One thread at a time uses a session, but not always the one that opened it.
            named["check_same_thread"] = False

        def connected(connection: sqlite3.Connection, _record: Any) -> None:
            # The driver would start transactions itself, but not before SELECT, SAVEPOINT, or CREATE.
            begin["text"] = f"BEGIN {connection.isolation_level or ''}".strip()
            connection.isolation_level = None
            if statement_timeout_ms:
                self.timer.watch(connection)

        sqlalchemy.event.listen(engine, "do_connect", arguments)
        sqlalchemy.event.listen(engine, "connect", connected, insert=True)
        if statement_timeout_ms:
            sqlalchemy.event.listen(engine, "before_cursor_execute", lambda _c, cursor, *_: self.timer.start(cursor.connection))
            sqlalchemy.event.listen(engine, "close", lambda connection, _: self.timer.forget(connection))
        sqlalchemy.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin["text"]))

    def classify(self, error: BaseException) -> ErrorKind:
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None:
            found = _KINDS_BY_NUMBER.get(code & 0xFF)
            if found is not None:
                return found
            return ErrorKind.TABLE if any(words in str(error) for words in _GONE) else ErrorKind.STATEMENT
        if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
            return ErrorKind.CONNECTION
        # The driver rejects a value: an int of more than 64 bits, half a surrogate pair, an unknown type.
        if isinstance(error, (OverflowError, UnicodeError)) or "binding parameter" in str(error):
            return ErrorKind.ROW
        return ErrorKind.STATEMENT

    def error_message(self, error: BaseException) -> str:
        words = super().error_message(error)
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_BUSY:
            return f"{words}: another connection is writing to it, or has been reading it for long"
        if code == sqlite3.SQLITE_CANTOPEN:
            return f"{words}: its folder does not exist, or this user may not read or write it"
        if code == sqlite3.SQLITE_READONLY:
            return f"{words}: the file or its folder is not writable for this user"
        return with_hint(words, FULL if code == sqlite3.SQLITE_FULL else None)

    def cancel(self, driver_connection: Any) -> None:
        driver_connection.interrupt()

    # --- catalog

    def tables(
        self, session: DriverSession, kinds: Collection[str], *, catalog: str | None = None, schema: str | None = None
    ) -> list[tuple[TableName, str]]:
        return system_catalog.tables(session, kinds)

    def statistics(
        self, session: DriverSession, *, catalog: str | None = None, schema: str | None = None
    ) -> Mapping[TableName, TableStatistics]:
        return system_catalog.statistics(session)

    def describe(self, session: DriverSession, name: TableName) -> JdbcTable | None:
        return system_catalog.describe(session, name)

    def now(self, session: DriverSession) -> int:
        row = session.query(Sql("SELECT strftime('%s','now'), strftime('%f','now')"), "reading the clock")[0]
        return int(row[0]) * 1_000_000_000 + int(row[1].partition(".")[2]) * 1_000_000

    # --- reading

    def reader(self, session: DriverSession, query: Sql, options: ReadOptions, table: JdbcTable | None = None) -> RowReader:
        return SqliteReader(session, query, options, table, self._widest_storage, self.timer)

    def timestamp(self, ns: int, column: JdbcColumn | None, options: ReadOptions) -> Sql:
        if column is None:
            return Sql(Bind(ns // 1_000_000))
        return comparable_sql(self.quote(column.name), ns, options.zone)

    # --- creating and changing tables

    def column_type(self, field: SinkField) -> str:
        logical = logical_type(field.schema, self._write_options)
        if logical.kind is FieldKind.DECIMAL or (logical.is_temporal and logical.form is TemporalForm.CONNECT):
            return "NUMERIC"
        # Arrays, maps, and structs are stored as JSON.
        return _TYPES.get(field.schema.type, "TEXT")

    def add_columns(self, table: JdbcTable, fields: Sequence[SinkField]) -> list[Sql]:
        return [Sql(f"ALTER TABLE {self.table_ref(table.name)} ADD ", self._column_definition(field)) for field in fields]

    def literal(self, field: SinkField) -> str:
        convert = value_converter(field, parse_declared_type(self.column_type(field)), self._write_options)
        default = field.schema.default
        return system_catalog.literal(default if convert is None else convert(default))

    # --- writing

    def writer(self, table: JdbcTable, fields: Sequence[SinkField], mode: InsertMode, options: WriteOptions) -> RowWriter:
        columns = [self._column(table, field) for field in fields]
        names = [column.name for column in columns]
        keys = [i for i, field in enumerate(fields) if field.is_key]
        others = [i for i, field in enumerate(fields) if not field.is_key]
        marks = ["?"] * len(fields)
        order = list(range(len(fields)))
        if mode is InsertMode.UPDATE:
            statement = self.update_sql(table.name, [names[i] for i in others], [names[i] for i in keys], marks)
            order = others + keys
        else:
            statement = self.insert_sql(table.name, names, marks)
            if mode is InsertMode.UPSERT:
                statement += self._on_conflict(table, [names[i] for i in keys], [names[i] for i in others])
        return self._writer(statement, table, fields, order, columns, options, f"writing to {table.name}")

    def _on_conflict(self, table: JdbcTable, keys: Sequence[str], others: Sequence[str]) -> Sql:
        """Returns the ON CONFLICT clause. Unlike INSERT OR REPLACE, it preserves columns that are not in the record."""
        if sqlite3.sqlite_version_info < _UPSERT_SINCE:
            raise UnsupportedError(f"insert.mode=upsert needs SQLite 3.24 or later; this is {sqlite3.sqlite_version}")
        unique = [table.primary_key, *table.unique_keys]
        if not any(set(found) == set(keys) and found for found in unique):
            shown = ", ".join(self.quote(key) for key in keys) or "the key"
            raise DataError(
                f"insert.mode=upsert into {table.name} needs a primary key or unique index over {shown}, or rows "
                f"would be duplicated; create one: CREATE UNIQUE INDEX ... ON {self.table_ref(table.name)} ({shown})"
            )
        target = ",".join(self.quote(key) for key in keys)
        if not others:
            return Sql(f" ON CONFLICT({target}) DO NOTHING")
        changes = joined(",", [f"{self.quote(name)}=excluded.{self.quote(name)}" for name in others])
        return Sql(f" ON CONFLICT({target}) DO UPDATE SET ", changes)

    def deleter(self, table: JdbcTable, keys: Sequence[SinkField], options: WriteOptions) -> RowWriter:
        columns = [self._column(table, field) for field in keys]
        statement = self.delete_sql(table.name, [column.name for column in columns], ["?"] * len(columns))
        return self._writer(statement, table, keys, list(range(len(keys))), columns, options, f"deleting from {table.name}")

    def column_limits(self, column: JdbcColumn) -> ColumnLimits | None:
        return column_limits(parse_declared_type(column.type_name))

    def _writer(
        self,
        statement: Sql,
        table: JdbcTable,
        fields: Sequence[SinkField],
        order: Sequence[int],
        columns: Sequence[JdbcColumn],
        options: WriteOptions,
        doing: str,
    ) -> RowWriter:
        types = [parse_declared_type(column.type_name) for column in columns]
        return SqliteWriter(statement.text, rows_converter(fields, order, types, options), doing, self.timer)

    def _column(self, table: JdbcTable, field: SinkField) -> JdbcColumn:
        column = table.column(field.name)
        if column is None:
            raise DataError(f"Table {table.name} has no column {field.name}; it has {', '.join(table.by_name)}")
        if column.generated:
            raise DataError(f"Column {column.name} of {table.name} is computed by SQLite and cannot be written")
        return column

    def truncate(self, name: TableName) -> Sql:
        return Sql(f"DELETE FROM {self.table_ref(name)}")
