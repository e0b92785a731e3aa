"""The dialect of DuckDB."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakSet

import duckdb
import sqlalchemy

from connect.errors import DataError
from connectors.jdbc.catalog import JdbcColumn, JdbcTable, TableStatistics
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects.column_limits import ColumnLimits
from connectors.jdbc.dialects.dialect import Dialect, RowReader, RowWriter
from connectors.jdbc.dialects.duckdb import catalog as system_catalog
from connectors.jdbc.dialects.duckdb.arrow_staging import arrow_column
from connectors.jdbc.dialects.duckdb.column_limits import column_limits
from connectors.jdbc.dialects.duckdb.reader import DuckDbReader
from connectors.jdbc.dialects.duckdb.statement_timeout import DuckDbStatementTimer
from connectors.jdbc.dialects.duckdb.writer import DuckDbWriter
from connectors.jdbc.dialects.logical_types import FieldKind, LogicalType, TemporalForm, logical_type
from connectors.jdbc.dialects.text_values import to_text
from connectors.jdbc.dialects.types import format_wall_ns, instant_to_wall_ns
from connectors.jdbc.errors import ErrorKind
from connectors.jdbc.options import InsertMode, ReadOptions, SinkField, WriteOptions
from connectors.jdbc.sql import Bind, Sql
from connectors.jdbc.table_name import TableName
from connectors.jdbc.urls.connection_url import ConnectionTarget

if TYPE_CHECKING:
    from sqlalchemy import Engine

_ROW = (
    duckdb.ConstraintException, duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.TypeMismatchException,
    duckdb.InvalidInputException,
)  # fmt: skip
_MOMENT = (duckdb.TransactionException, duckdb.SerializationException, duckdb.ResourceInUseException)
_OTHERWISE_OPEN = "different configuration than existing connections"
_HELD = (
    "another process has the file open: DuckDB allows either one writing process or several reading ones. A source keeps the "
    "file open while it reads, a sink until it stops"
)
_LOCK = re.compile(r"lock", re.IGNORECASE)

_TYPES = {
    FieldKind.BOOLEAN: "BOOLEAN",
    FieldKind.INT8: "TINYINT",
    FieldKind.INT16: "SMALLINT",
    FieldKind.INT32: "INTEGER",
    FieldKind.YEAR: "INTEGER",
    FieldKind.INT64: "BIGINT",
    FieldKind.DURATION: "INTERVAL",
    FieldKind.INTERVAL: "INTERVAL",
    FieldKind.FLOAT32: "FLOAT",
    FieldKind.FLOAT64: "DOUBLE",
    FieldKind.BYTES: "BLOB",
    FieldKind.DATE: "DATE",
    FieldKind.TIME: "TIME",
    FieldKind.ZONED_TIME: "TIME WITH TIME ZONE",
    FieldKind.JSON: "JSON",
    FieldKind.UUID: "UUID",
    FieldKind.BITS: "BIT",
}
_MOST_DIGITS = 38
_numbers = itertools.count(1)

UTC = "SET TimeZone = 'UTC'"


def _view_name() -> str:
    """Returns a unique name for the view of a writer's rows."""
    return f"sluice_rows_{next(_numbers)}"


def _connect_read_only(dialect: Any, _record: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Opens a read-only connection, so that other processes can read the file: DuckDB allows one writing process or several
    reading ones."""
    try:
        return dialect.connect(*args, **{**named, "read_only": True})
    except duckdb.ConnectionException as e:
        if _OTHERWISE_OPEN not in str(e):
            raise
        return dialect.connect(*args, **named)  # this process also writes to it


class DuckDbDialect(Dialect):
    name: ClassVar[str] = "DuckDB"
    paramstyle: ClassVar[str] = "qmark"
    transactional_ddl: ClassVar[bool] = True
    savepoints: ClassVar[bool] = False
    releases_when_idle: ClassVar[bool] = True

    def __init__(self, target: ConnectionTarget, *, quotes: bool = True) -> None:
        super().__init__(target, quotes=quotes)
        self._write_options = WriteOptions()
        self._readers: dict[int, WeakSet[Any]] = {}
        self._timer = DuckDbStatementTimer(0)

    # --- sessions

    def attach(self, engine: Engine, statement_timeout_ms: int) -> None:
        self._timer = DuckDbStatementTimer(statement_timeout_ms)
        self._timer.watch(engine)
        sqlalchemy.event.listen(engine, "close", lambda connection, _: self._readers.pop(id(connection), None))

    def attach_reader(self, engine: Engine) -> None:
        if engine.url.database not in (None, "", ":memory:"):
            sqlalchemy.event.listen(engine, "do_connect", _connect_read_only)

    def session_statements(self, statement_timeout_ms: int) -> Sequence[str]:
        # Otherwise, comparing timestamps with and without a zone would depend on the zone of this machine.
        return () if self._has_own_zone else (UTC,)

    @property
    def _has_own_zone(self) -> bool:
        config = self.target.connect_args.get("config") or {}
        return any(str(name).lower() == "timezone" for name in config)

    def classify(self, error: BaseException) -> ErrorKind:
        if isinstance(error, _ROW):
            # The class has no number that distinguishes this error from rejected values.
            return ErrorKind.STATEMENT if "read-only mode" in str(error) else ErrorKind.ROW
        if isinstance(error, _MOMENT):
            return ErrorKind.TRANSIENT
        if isinstance(error, duckdb.IOException):
            # One process at a time can write a file. DuckDB has no code for that, and one class for all file errors.
            return ErrorKind.TRANSIENT if _LOCK.search(str(error)) else ErrorKind.STATEMENT
        if isinstance(error, (duckdb.CatalogException, duckdb.BinderException)):
            return ErrorKind.TABLE
        if _OTHERWISE_OPEN in str(error):
            return ErrorKind.TRANSIENT  # a source of this process is reading now
        if isinstance(error, duckdb.InterruptException) or "Interrupted" in str(error)[:40]:
            return ErrorKind.TIMEOUT
        if isinstance(error, (duckdb.ConnectionException, duckdb.FatalException, duckdb.InternalException)):
            return ErrorKind.CONNECTION
        return ErrorKind.STATEMENT

    def error_message(self, error: BaseException) -> str:
        held = isinstance(error, duckdb.IOException) and "Could not set lock" in str(error)
        return f"{super().error_message(error)}; {_HELD}" if held else super().error_message(error)

    def cancel(self, driver_connection: Any) -> None:
        for reader in list(self._readers.get(id(driver_connection), ())):
            reader.interrupt()
        driver_connection.interrupt()

    # --- catalog

    def tables(
        self, session: DriverSession, kinds: Collection[str], *, catalog: str | None = None, schema: str | None = None
    ) -> list[tuple[TableName, str]]:
        return system_catalog.tables(session, kinds, catalog, schema)

    def statistics(
        self, session: DriverSession, *, catalog: str | None = None, schema: str | None = None
    ) -> Mapping[TableName, TableStatistics]:
        return system_catalog.statistics(session, catalog, schema)

    def describe(self, session: DriverSession, name: TableName) -> JdbcTable | None:
        return system_catalog.describe(session, name)

    def now(self, session: DriverSession) -> int:
        # DuckDB runs in this process, and its own now() is the start of the transaction.
        return time.time_ns() // 1000 * 1000

    # --- reading

    def reader(self, session: DriverSession, query: Sql, options: ReadOptions, table: JdbcTable | None = None) -> RowReader:
        opened = self._readers.setdefault(id(session.driver), WeakSet())

        def begun(connection: Any) -> None:
            opened.add(connection)
            if not self._has_own_zone:
                connection.execute(UTC)

        return DuckDbReader(session, query, options, table, begun, self._timer)

    def timestamp(self, ns: int, column: JdbcColumn | None, options: ReadOptions) -> Sql:
        kind = "" if column is None or column.native is None else column.native.id
        if "time zone" in kind:
            return Sql("CAST(", Bind(format_wall_ns(ns, 6, " ") + "+00"), " AS TIMESTAMPTZ)")
        wall = instant_to_wall_ns(ns, options.zone)
        if kind == "timestamp_ns":
            return Sql("CAST(", Bind(format_wall_ns(wall, 9, " ")), " AS TIMESTAMP_NS)")
        return Sql("CAST(", Bind(format_wall_ns(wall, 6, " ")), " AS TIMESTAMP)")

    # --- creating and changing tables

    def column_type(self, field: SinkField) -> str:
        return self._type_of(logical_type(field.schema, self._write_options))

    def _type_of(self, logical: LogicalType) -> str:
        match logical.kind:
            case FieldKind.DECIMAL:
                scale = logical.scale
                return f"DECIMAL({_MOST_DIGITS},{scale})" if scale is not None and 0 <= scale <= _MOST_DIGITS else "VARCHAR"
            case FieldKind.TIMESTAMP:
                return "TIMESTAMP_NS" if logical.digits > 6 and logical.form is TemporalForm.NUMBER else "TIMESTAMP"
            case FieldKind.INSTANT:
                return "TIMESTAMP" if logical.form is TemporalForm.CONNECT else "TIMESTAMP WITH TIME ZONE"
            case FieldKind.ARRAY:
                assert logical.element is not None
                return f"{self._type_of(logical.element)}[]"
            case FieldKind.MAP:
                assert logical.element is not None
                assert logical.key is not None
                return f"MAP({self._type_of(logical.key)}, {self._type_of(logical.element)})"
            case FieldKind.STRUCT if logical.members:
                members = ", ".join(f"{self._quoted(name)} {self._type_of(member)}" for name, member in logical.members)
                return f"STRUCT({members})"
        return _TYPES.get(logical.kind, "VARCHAR")

    def add_columns(self, table: JdbcTable, fields: Sequence[SinkField]) -> list[Sql]:
        """Returns ALTER TABLE statements. DuckDB cannot add a column with constraints, so new columns are nullable."""
        head = f"ALTER TABLE {self.table_ref(table.name)}"
        found: list[Sql] = []
        for field in fields:
            default = f" DEFAULT {self.literal(field)}" if field.schema.default is not None else ""
            found.append(Sql(f"{head} ADD COLUMN {self.quote(field.name)} {self.column_type(field)}{default}"))
        return found

    def literal(self, field: SinkField) -> str:
        logical = logical_type(field.schema, self._write_options)
        if logical.kind is FieldKind.BYTES:
            return "'" + "".join(f"\\x{byte:02X}" for byte in field.schema.default) + "'::BLOB"
        if logical.kind in (FieldKind.ARRAY, FieldKind.MAP, FieldKind.STRUCT, FieldKind.GEOMETRY):
            raise DataError(f"Field {field.name}: a default of {logical.kind.value} cannot be written into a table")
        text = to_text(logical, self._write_options, f"Field {field.name}")(field.schema.default)
        return "CAST('" + text.replace("'", "''") + f"' AS {self._type_of(logical)})"

    # --- writing

    def writer(self, table: JdbcTable, fields: Sequence[SinkField], mode: InsertMode, options: WriteOptions) -> RowWriter:
        columns = [self._column(table, field) for field in fields]
        arrow_columns = [self._arrow_column(field, column, options) for field, column in zip(fields, columns, strict=True)]
        keys = [i for i, field in enumerate(fields) if field.is_key]
        others = [i for i, field in enumerate(fields) if not field.is_key]
        values = [arrow.sql.format(f"i.c{i}") for i, arrow in enumerate(arrow_columns)]
        rows = _view_name()
        name, quoted = self.table_ref(table.name), [self.quote(column.name) for column in columns]
        if mode is InsertMode.UPDATE:
            if not others:
                raise DataError(
                    f"insert.mode=update of {table.name} has no columns to set because all fields are part of the key"
                )
            changes = ", ".join(f"{quoted[i]} = {values[i]}" for i in others)
            text = f"UPDATE {name} AS t SET {changes} FROM {rows} AS i WHERE {self._same(columns, values, keys)}"
        else:
            text = f"INSERT INTO {name} ({','.join(quoted)}) SELECT {','.join(values)} FROM {rows} AS i"
            if mode is InsertMode.UPSERT:
                text += self._on_conflict(table, [columns[i].name for i in keys], [quoted[i] for i in others])
        return DuckDbWriter(text, rows, fields, arrow_columns, options, f"writing to {table.name}", self._timer)

    def _on_conflict(self, table: JdbcTable, keys: Sequence[str], others: Sequence[str]) -> str:
        target = ",".join(self.quote(key) for key in keys)
        unique = [table.primary_key, *table.unique_keys]
        if not any(found and set(found) == set(keys) for found in unique):
            raise DataError(
                f"insert.mode=upsert into {table.name} needs a primary key or unique index over {target or 'the key'}, by which "
                f"DuckDB finds the rows; create one: CREATE UNIQUE INDEX ... ON {self.table_ref(table.name)} ({target})"
            )
        if not others:
            return f" ON CONFLICT ({target}) DO NOTHING"
        return f" ON CONFLICT ({target}) DO UPDATE SET " + ",".join(f"{name}=EXCLUDED.{name}" for name in others)

    def deleter(self, table: JdbcTable, keys: Sequence[SinkField], options: WriteOptions) -> RowWriter:
        columns = [self._column(table, field) for field in keys]
        arrow_columns = [self._arrow_column(field, column, options) for field, column in zip(keys, columns, strict=True)]
        values = [arrow.sql.format(f"i.c{i}") for i, arrow in enumerate(arrow_columns)]
        same, rows = self._same(columns, values, range(len(keys))), _view_name()
        text = f"DELETE FROM {self.table_ref(table.name)} AS t USING {rows} AS i WHERE {same}"
        return DuckDbWriter(text, rows, keys, arrow_columns, options, f"deleting from {table.name}", self._timer)

    def column_limits(self, column: JdbcColumn) -> ColumnLimits | None:
        return column_limits(column.native)

    def _same(self, columns: Sequence[JdbcColumn], values: Sequence[str], keys: Sequence[int]) -> str:
        return " AND ".join(f"t.{self.quote(columns[i].name)} = CAST({values[i]} AS {columns[i].type_name})" for i in keys)

    def _arrow_column(self, field: SinkField, column: JdbcColumn, options: WriteOptions) -> Any:
        return arrow_column(logical_type(field.schema, options, field.name), column.native, options, f"Field {field.name}")

    def _column(self, table: JdbcTable, field: SinkField) -> JdbcColumn:
        column = table.column(field.name)
        if column is None:
            raise DataError(f"Table {table.name} has no column {field.name}; it has {', '.join(table.by_name)}")
        if column.generated:
            raise DataError(f"Column {column.name} of {table.name} is computed by DuckDB and cannot be written")
        return column
