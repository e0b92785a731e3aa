"""The dialect of all databases without one of their own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import sqlalchemy
from sqlalchemy import types as sa
from sqlalchemy.exc import SQLAlchemyError

from connect.errors import DataError, UnsupportedError
from connectors.jdbc.catalog import JdbcColumn, JdbcTable
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects import merge_sql
from connectors.jdbc.dialects.column_limits import ColumnLimits
from connectors.jdbc.dialects.dialect import Dialect, RowReader, RowWriter
from connectors.jdbc.dialects.generic.catalog import GenericCatalog
from connectors.jdbc.dialects.generic.errors import classify_error
from connectors.jdbc.dialects.generic.reader import GenericReader
from connectors.jdbc.dialects.generic.writer import GenericWriter, value_converter
from connectors.jdbc.dialects.logical_types import FieldKind, LogicalType, TemporalForm, logical_type
from connectors.jdbc.dialects.types import datetime_to_instant_ns, datetime_to_wall_ns, instant_to_wall_ns, wall_ns_to_datetime
from connectors.jdbc.errors import ErrorKind
from connectors.jdbc.options import InsertMode, ReadOptions, SinkField, WriteOptions
from connectors.jdbc.sql import Bind, Sql, joined
from connectors.jdbc.table_name import TableName
from connectors.jdbc.urls.connection_url import ConnectionTarget

if TYPE_CHECKING:
    from sqlalchemy import Engine

_KEY_LENGTH = 255
"""The length of text columns in a primary key: most databases cannot index unlimited text."""

_FETCH_FIRST = ("db2", "ibm_db_sa", "derby", "oracle", "firebird")


class GenericDialect(Dialect):
    name: ClassVar[str] = "The database"

    def __init__(self, target: ConnectionTarget, *, quotes: bool = True) -> None:
        super().__init__(target, quotes=quotes)
        self.sa: Any = target.url.get_dialect()()
        self._use_paramstyle(self.sa.paramstyle)
        self._write_options = WriteOptions()

    def _use_paramstyle(self, style: str) -> None:
        # It depends on the driver here; Dialect declares a class constant because most dialects have one driver.
        object.__setattr__(self, "paramstyle", style)

    @property
    def backend(self) -> str:
        return str(self.sa.name)

    def attach(self, engine: Engine, statement_timeout_ms: int) -> None:
        self.sa = engine.dialect
        self._use_paramstyle(engine.dialect.paramstyle)

    def _quoted(self, name: str) -> str:
        return str(self.sa.identifier_preparer.quote_identifier(name))

    def classify(self, error: BaseException) -> ErrorKind:
        return classify_error(error)

    def cancel(self, driver_connection: Any) -> None:
        for name in ("cancel", "interrupt"):
            if hasattr(driver_connection, name):
                getattr(driver_connection, name)()
                return

    # --- catalog

    def tables(
        self, session: DriverSession, kinds: Collection[str], *, catalog: str | None = None, schema: str | None = None
    ) -> list[tuple[TableName, str]]:
        return GenericCatalog(session).tables(kinds, schema)

    def describe(self, session: DriverSession, name: TableName) -> JdbcTable | None:
        return GenericCatalog(session).describe(name)

    clock: ClassVar[str] = "SELECT CURRENT_TIMESTAMP"

    def now(self, session: DriverSession) -> int:
        """Returns the database's current time, taken as UTC if it has no zone."""
        value = session.query(Sql(self._clock()), "reading the clock")[0][0]
        if isinstance(value, str):
            value = dt.datetime.fromisoformat(value)
        return datetime_to_wall_ns(value) if value.tzinfo is None else datetime_to_instant_ns(value)

    def _clock(self) -> str:
        match self.backend:
            case "db2" | "ibm_db_sa" | "derby":
                return "VALUES(CURRENT_TIMESTAMP)"
            case "hana":
                return "SELECT CURRENT_UTCTIMESTAMP FROM DUMMY"
        return self.clock

    # --- reading

    def reader(self, session: DriverSession, query: Sql, options: ReadOptions, table: JdbcTable | None = None) -> RowReader:
        return GenericReader(session, query, options, table)

    def timestamp(self, ns: int, column: JdbcColumn | None, options: ReadOptions) -> Sql:
        whole = ns - ns % 1000
        if column is not None and getattr(column.native, "timezone", None):
            return Sql(Bind(wall_ns_to_datetime(whole, "The timestamp").replace(tzinfo=dt.UTC)))
        return Sql(Bind(wall_ns_to_datetime(instant_to_wall_ns(whole, options.zone), "The timestamp")))

    def limited(self, query: Sql, rows: int) -> Sql:
        if self.backend in _FETCH_FIRST:
            return query + f" FETCH FIRST {rows:d} ROWS ONLY"
        return super().limited(query, rows)

    # --- creating and changing tables

    def column_type(self, field: SinkField) -> str:
        logical = logical_type(field.schema, self._write_options)
        try:
            return str(self._type_of(logical, field).compile(dialect=self.sa))
        except SQLAlchemyError as e:
            raise DataError(f"Field {field.name}: {self.backend} has no type for {logical.kind.value} ({e})") from e

    def _type_of(self, logical: LogicalType, field: SinkField) -> Any:
        match logical.kind:
            case FieldKind.BOOLEAN:
                return sa.Boolean()
            case FieldKind.INT8 | FieldKind.INT16:
                return sa.SmallInteger()
            case FieldKind.INT32 | FieldKind.YEAR:
                return sa.Integer()
            case FieldKind.INT64 | FieldKind.DURATION:
                return sa.BigInteger()
            case FieldKind.FLOAT32:
                return sa.REAL()
            case FieldKind.FLOAT64:
                return sa.Double()
            case FieldKind.BYTES:
                return sa.LargeBinary()
            case FieldKind.DECIMAL:
                return sa.Numeric(38, 0 if logical.scale is None else logical.scale)
            case FieldKind.DATE:
                return sa.Date()
            case FieldKind.TIME:
                return sa.Time()
            case FieldKind.TIMESTAMP:
                return sa.DateTime()
            case FieldKind.INSTANT:
                return sa.DateTime(timezone=logical.form is not TemporalForm.CONNECT)
        return sa.String(_KEY_LENGTH) if field.is_key else sa.Text()

    def literal(self, field: SinkField) -> str:
        type_ = self._type_of(logical_type(field.schema, self._write_options), field)
        convert = value_converter(field, JdbcColumn(field.name, "", native=type_), self._write_options)
        value = field.schema.default if convert is None else convert(field.schema.default)
        try:
            expression: Any = sqlalchemy.literal(value, type_)
            return str(expression.compile(dialect=self.sa, compile_kwargs={"literal_binds": True}))
        except SQLAlchemyError as e:
            raise DataError(f"Field {field.name}: {self.backend} cannot write the default {value!r} into a table") from e

    # --- writing

    def writer(self, table: JdbcTable, fields: Sequence[SinkField], mode: InsertMode, options: WriteOptions) -> RowWriter:
        columns = [self._column(table, field) for field in fields]
        keys = [i for i, field in enumerate(fields) if field.is_key]
        others = [i for i, field in enumerate(fields) if not field.is_key]
        order = [*others, *keys] if mode is InsertMode.UPDATE else [*keys, *others]
        names = [columns[i].name for i in order]
        marks: list[Sql | Bind | str] = [Bind(None) for _ in order]
        match mode:
            case InsertMode.INSERT:
                statement = self.insert_sql(table.name, names, marks)
            case InsertMode.UPDATE:
                statement = self.update_sql(table.name, names[: len(others)], names[len(others) :], marks)
            case InsertMode.UPSERT:
                statement = self.upsert_sql(table, names[: len(keys)], names[len(keys) :], marks)
        return self._writer(statement, fields, columns, order, options, f"writing to {table.name}")

    def upsert_sql(self, table: JdbcTable, keys: Sequence[str], others: Sequence[str], marks: Sequence[Sql | Bind | str]) -> Sql:
        """``marks`` has the marks of the keys, then those of the other columns."""
        name = self.table_ref(table.name)
        quoted, rest = [self.quote(key) for key in keys], [self.quote(other) for other in others]
        match self.backend:
            case "sybase":
                return merge_sql.merge_from_select(name, quoted, rest, marks, hold_lock=False)
            case "db2" | "ibm_db_sa" | "derby":
                return merge_sql.merge_from_values(name, quoted, rest, marks)
            case "hana":
                return merge_sql.upsert_with_primary_key(name, [*quoted, *rest], marks)
            case "cockroachdb" | "postgresql":
                changes = ",".join(f"{column}=EXCLUDED.{column}" for column in rest)
                action = f"DO UPDATE SET {changes}" if rest else "DO NOTHING"
                return self.insert_sql(table.name, [*keys, *others], marks) + f" ON CONFLICT ({','.join(quoted)}) {action}"
        raise UnsupportedError(
            f"insert.mode=upsert is not supported for {self.backend}; use insert.mode=insert or insert.mode=update"
        )

    def deleter(self, table: JdbcTable, keys: Sequence[SinkField], options: WriteOptions) -> RowWriter:
        columns = [self._column(table, field) for field in keys]
        statement = self.delete_sql(table.name, [column.name for column in columns], [Bind(None) for _ in columns])
        return self._writer(statement, keys, columns, range(len(keys)), options, f"deleting from {table.name}")

    def column_limits(self, column: JdbcColumn) -> ColumnLimits | None:
        """Returns the limits that SQLAlchemy's types show: scales, floats, dates, but not the precision of times."""
        match column.native:
            case sa.Double():
                return ColumnLimits(float_bits=64)
            case sa.REAL():
                return ColumnLimits(float_bits=32)
            case sa.Float():
                return None
            case sa.Numeric(scale=int() as scale):
                return ColumnLimits(scale=scale)
            case sa.Numeric():
                return None  # Oracle's NUMBER, which is an Integer as well
            case sa.Integer():
                return ColumnLimits(scale=0)
            case sa.Date():
                return ColumnLimits(drops_time=True)
        return None

    def _writer(
        self,
        statement: Sql,
        fields: Sequence[SinkField],
        columns: Sequence[JdbcColumn],
        order: Sequence[int],
        options: WriteOptions,
        doing: str,
    ) -> RowWriter:
        text, _ = statement.render(self.paramstyle)
        return GenericWriter(text, fields, columns, order, options, doing)

    def _column(self, table: JdbcTable, field: SinkField) -> JdbcColumn:
        column = table.column(field.name)
        if column is None:
            raise DataError(f"Table {table.name} has no column {field.name}; it has {', '.join(table.by_name)}")
        if column.generated:
            raise DataError(f"Column {column.name} of {table.name} is computed by the database and cannot be written")
        return column

    def _definitions(self, fields: Sequence[SinkField]) -> Sql:
        return joined(",\n", [self._column_definition(field) for field in fields])
