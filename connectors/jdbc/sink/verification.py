"""What the JDBC sinks are expected to have in their tables, and reading these tables, for ``sluice verify``."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from connect.errors import ConnectError, NotFoundError
from connect.record import SinkRecord, TopicPartition
from connect.verification import ColumnType, ExpectedRows, KeyFilter, TargetRows
from connectors.jdbc.catalog import JdbcColumn, JdbcTable
from connectors.jdbc.database import Database, Session
from connectors.jdbc.dialects.dialect import Dialect
from connectors.jdbc.sink.config import SinkWriterConfig
from connectors.jdbc.sink.row_changes import ChangePlanner, Operation
from connectors.jdbc.sql import Bind, Sql, joined
from connectors.jdbc.table_name import TableName

_BATCH_ROWS = 5_000
_MAX_FILTER_VALUES = 5_000

# The first pattern that matches the name of a type decides.
_TYPES: tuple[tuple[re.Pattern[str], ColumnType], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r".*\[\]|array.*|_.*", ColumnType.ARRAY),
        (r"jsonb?\b", ColumnType.JSON),
        (r"interval", ColumnType.DURATION),
        (r"bool", ColumnType.BOOLEAN),
        (r"(tiny|small|medium|big|huge|u)*(int|serial)|int\d|long$|rowid", ColumnType.INTEGER),
        (r"double|float8|binary_double", ColumnType.DOUBLE),
        (r"real|float4|float\b|binary_float", ColumnType.FLOAT),
        (r"numeric|decimal|number|dec\b", ColumnType.DECIMAL),
        (r"bytea|.*blob|.*binary|raw|image", ColumnType.BYTES),
        (r"timestamp|datetime|smalldatetime", ColumnType.TIMESTAMP),
        (r"date\b", ColumnType.DATE),
        (r"time", ColumnType.TIME),
    )
)
_PLAIN_POSTGRES_TEXTS = re.compile(r"(text|varchar|character|char|bpchar|name|citext|bit)\b", re.IGNORECASE)
_MS_PER_DAY = 86_400_000


class JdbcVerification:
    """Implements :class:`connect.verification.VerifiableSink`."""

    negative_zero = False
    ignores_missing_columns = False

    def __init__(self, settings: SinkWriterConfig, planner_for: Callable[[Dialect], ChangePlanner], *, deletes: bool) -> None:
        self._settings = settings
        self._database = Database(replace(settings.connection, attempts=1, reads_only=True))
        self._planner = planner_for(self._database.dialect)
        self._names: dict[str, TableName] = {}
        self._described: dict[str, JdbcTable | None] = {}
        self.keeps_deleted_rows = not deletes

    def expect(self, records: Sequence[SinkRecord]) -> Sequence[ExpectedRows]:
        indexes = {id(record): index for index, record in enumerate(records)}
        found = []
        for changes in self._planner.plan(records, _ignore):
            if changes.shape.operation is not Operation.WRITE or not changes.rows:
                continue
            name = str(changes.shape.table)
            self._names[name] = changes.shape.table
            table = self._describe(name)
            columns = {}
            for field, values in zip(changes.shape.fields, zip(*changes.rows, strict=True), strict=True):
                default = field.schema.default if self._settings.write.null_as_default else None
                if default is not None:
                    values = tuple(default if value is None else value for value in values)
                columns[_column_name(table, field.name)] = field.schema, values
            key = tuple(_column_name(table, one.name) for one in changes.shape.fields if one.is_key)
            found.append(ExpectedRows(name, key, columns, [indexes[id(record)] for record in changes.records]))
        return found

    def _describe(self, name: str) -> JdbcTable | None:
        if name not in self._described:
            session = self._database.session()
            try:
                self._described[name] = self._database.dialect.describe(session, self._names[name])
            finally:
                session.rollback()
                session.close()
        return self._described[name]

    def open(self, table: str, key: Sequence[str]) -> JdbcTargetTable:
        self._described.pop(table, None)
        found = self._describe(table) if table in self._names else None
        if found is None:
            raise NotFoundError(f"there is no table {table} in {self._database.label}")
        return JdbcTargetTable(self._database, found, self._settings.write.zone)

    def written_offsets(self, table: str) -> Mapping[TopicPartition, int]:
        """Databases have no offsets of Kafka."""
        return {}

    def close(self) -> None:
        self._database.close()


def _ignore(record: SinkRecord, error: ConnectError) -> None:
    """A record that the sink does not write has no row."""


def _column_name(table: JdbcTable | None, name: str) -> str:
    column = None if table is None else table.column(name)
    return name if column is None else column.name


def column_type(column: JdbcColumn, backend: str) -> ColumnType:
    """Returns the kind of values of a column, by the name of its type."""
    name = column.type_name
    found = next((kind for pattern, kind in _TYPES if pattern.match(name)), ColumnType.TEXT)
    return ColumnType.DOUBLE if found is ColumnType.FLOAT and backend in ("sqlite", "oracle") else found


class JdbcTargetTable:
    """Implements :class:`connect.verification.TargetTable`. Each call of ``rows`` is a transaction of its own."""

    version = "now"

    def __init__(self, database: Database, table: JdbcTable, zone: dt.tzinfo) -> None:
        self._database = database
        self._table = table
        self._zone = zone
        self._backend = database.dialect.target.url.get_backend_name()
        self.columns = {column.name: column_type(column, self._backend) for column in table.columns}
        self.estimated_rows = 0

    def rows(self, columns: Sequence[str], only: KeyFilter | None = None) -> Iterator[TargetRows]:
        dialect = self._database.dialect
        selected = [self._expression(dialect, self._table.by_name[name]) for name in columns]
        query = Sql(f"SELECT {', '.join(selected)} FROM {dialect.table_ref(self._table.name)}")
        if only is not None and self._can_filter(only):
            query += Sql(f" WHERE {dialect.quote(only.column)} IN (", joined(",", list(map(Bind, only.values))), ")")
        readers = [self._reader(self._table.by_name[name]) for name in columns]
        session: Session = self._database.session()
        try:
            with session.guarded(f"reading {self._table.name}"):
                statement, values = query.render(dialect.paramstyle)
                connection = session.connection.execution_options(stream_results=True, max_row_buffer=_BATCH_ROWS)
                result = connection.exec_driver_sql(statement, values)
                while batch := result.fetchmany(_BATCH_ROWS):
                    found = zip(*batch, strict=True)
                    yield {name: _read(reader, column) for name, reader, column in zip(columns, readers, found, strict=True)}
        finally:
            session.rollback()
            session.close()

    def _can_filter(self, only: KeyFilter) -> bool:
        if len(only.values) > _MAX_FILTER_VALUES or not only.values or only.column not in self.columns:
            return False
        kind = self.columns[only.column]
        if isinstance(only.values[0], int):
            return kind is ColumnType.INTEGER
        type_name = self._table.by_name[only.column].type_name
        is_text = kind is ColumnType.TEXT and re.match(r"(text|varchar|character varying)", type_name)
        # Other databases may compare texts without their case.
        return bool(is_text) and self._backend in ("postgresql", "sqlite")

    def _expression(self, dialect: Dialect, column: JdbcColumn) -> str:
        """The column as SQL, in a form that the driver returns completely: not all dates are ones of Python."""
        quoted = dialect.quote(column.name)
        if self._backend not in ("postgresql", "cockroachdb"):
            return quoted
        kind = self.columns[column.name]
        if kind is ColumnType.DURATION:
            return f"(EXTRACT(EPOCH FROM {quoted}) * 1000000)::bigint"
        if kind in (ColumnType.JSON, ColumnType.DATE, ColumnType.TIME, ColumnType.TIMESTAMP):
            return f"{quoted}::text"
        if kind is ColumnType.TEXT and not _PLAIN_POSTGRES_TEXTS.match(column.type_name):
            return f"{quoted}::text"
        return quoted

    def _reader(self, column: JdbcColumn) -> Callable[[Any], Any] | None:
        """Converts a value of the driver, if it has another meaning than the same value of other databases."""
        kind = self.columns[column.name]
        if self._backend == "sqlite" and kind in (ColumnType.DATE, ColumnType.TIME, ColumnType.TIMESTAMP):
            # Numbers are milliseconds, as the Java driver writes them.
            if kind is ColumnType.DATE:
                return lambda value: value // _MS_PER_DAY if isinstance(value, int) else value
            return lambda value: value * 1000 if isinstance(value, int) else self._in_zone(value)
        if kind is ColumnType.TIMESTAMP and self._zone is not dt.UTC:
            return self._in_zone
        if column.type_name.lower().startswith("bit") and self._backend in ("mysql", "mariadb"):
            return lambda value: int.from_bytes(value, "big")
        return None

    def _in_zone(self, value: Any) -> Any:
        """A time without a zone is in the zone that the sink writes (``db.timezone``)."""
        if self._zone is dt.UTC:
            return value
        try:
            moment = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
        except ValueError:
            return value
        return moment.replace(tzinfo=self._zone) if isinstance(moment, dt.datetime) and moment.tzinfo is None else value

    def close(self) -> None:
        """Does nothing: each call of ``rows`` closes its session."""


def _read(reader: Callable[[Any], Any] | None, values: Sequence[Any]) -> Sequence[Any]:
    return values if reader is None else [None if value is None else reader(value) for value in values]
