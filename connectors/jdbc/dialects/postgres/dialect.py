"""The dialect of PostgreSQL. It also serves CockroachDB and Redshift, as far as they accept the same SQL; the parameters that a
server sends when a connection opens tell which one it is.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from sqlalchemy.event import listen

from connect.errors import ConfigError, DataError
from connectors.databases.calendar import NS_PER_SECOND
from connectors.databases.postgresql.dates import format_offset, format_timestamp
from connectors.jdbc.catalog import JdbcColumn, JdbcTable, TableStatistics
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects import types as shared
from connectors.jdbc.dialects.column_limits import ColumnLimits
from connectors.jdbc.dialects.dialect import Dialect, RowReader, RowWriter
from connectors.jdbc.dialects.postgres import catalog as system_catalog
from connectors.jdbc.dialects.postgres import ddl, libpq
from connectors.jdbc.dialects.postgres.catalog import PostgresColumnDetails, PostgresTable, PostgresTypeCache
from connectors.jdbc.dialects.postgres.column_limits import column_limits
from connectors.jdbc.dialects.postgres.errors import classify_error, error_message
from connectors.jdbc.dialects.postgres.reader import inline_values, open_reader, result_columns
from connectors.jdbc.dialects.postgres.row_decoder import PostgresReadPlan, build_read_plan
from connectors.jdbc.dialects.postgres.types import PostgresResultColumn
from connectors.jdbc.dialects.postgres.writer import CopyWriter, StatementWriter, WrittenField, select_from_arrays, written_fields
from connectors.jdbc.errors import ErrorKind
from connectors.jdbc.options import InsertMode, ReadOptions, SinkField, WriteOptions
from connectors.jdbc.sql import Bind, Sql
from connectors.jdbc.table_name import TableName
from connectors.jdbc.urls.connection_url import ConnectionTarget

if TYPE_CHECKING:
    from sqlalchemy import Engine

log = logging.getLogger(__name__)

_MOST_PLANS = 256
_MOST_NAME_BYTES = 63

# Makes the text format independent of settings of the server, the role, or the database.
_SETTINGS = {
    "client_encoding": "UTF8",
    "datestyle": "ISO, YMD",
    "timezone": "UTC",
    "intervalstyle": "iso_8601",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "xmloption": "content",
    "standard_conforming_strings": "on",
}


class PostgresDialect(Dialect):
    """See :class:`Dialect`."""

    name: ClassVar[str] = "PostgreSQL"
    paramstyle: ClassVar[str] = "format"
    transactional_ddl: ClassVar[bool] = True

    def __init__(self, target: ConnectionTarget, *, quotes: bool = True) -> None:
        super().__init__(target, quotes=quotes)
        self._types = PostgresTypeCache()
        self._plans: dict[Any, PostgresReadPlan] = {}

    # --- sessions

    def attach(self, engine: Engine, statement_timeout_ms: int) -> None:
        """Disables prepared statements unless the URL enables them: one fails once ("cached plan must not change result type")
        after a column of its table changes, and poolers (PgBouncer) may not preserve it."""
        if "prepare_threshold" not in self.target.connect_args:
            listen(engine, "connect", lambda connection, _: setattr(connection, "prepare_threshold", None))

    def session_statements(self, statement_timeout_ms: int) -> Sequence[str]:
        """Limits lock waits to half of the timeout, so that they are recognized and retried."""
        settings = {
            **_SETTINGS,
            "statement_timeout": str(statement_timeout_ms),
            "lock_timeout": str(statement_timeout_ms // 2),
        }
        # Skips settings that the server does not have. COMMIT, because a rollback would revert the settings.
        each = " UNION ALL ".join(f"SELECT '{name}' AS name, '{value}' AS value" for name, value in settings.items())
        return (
            "SELECT pg_catalog.set_config(s.name, wanted.value, false) FROM pg_catalog.pg_settings s "
            f"JOIN ({each}) wanted ON lower(s.name) = wanted.name",
            "COMMIT",
        )

    def classify(self, error: BaseException) -> ErrorKind:
        return classify_error(error)

    def error_message(self, error: BaseException) -> str:
        return error_message(error)

    def cancel(self, driver_connection: Any) -> None:
        libpq.cancel(driver_connection.pgconn)

    # --- catalog

    def tables(
        self, session: DriverSession, kinds: Collection[str], *, catalog: str | None = None, schema: str | None = None
    ) -> list[tuple[TableName, str]]:
        """Lists tables. As in the JDBC driver, an empty pattern matches all."""
        return system_catalog.tables(session, kinds, catalog, schema)

    def statistics(
        self, session: DriverSession, *, catalog: str | None = None, schema: str | None = None
    ) -> Mapping[TableName, TableStatistics]:
        return system_catalog.statistics(session, catalog, schema)

    def describe(self, session: DriverSession, name: TableName) -> JdbcTable | None:
        return system_catalog.describe(session, name, self._types)

    def now(self, session: DriverSession) -> int:
        clock = "getdate()" if libpq.server_kind(session) is libpq.ServerKind.REDSHIFT else "pg_catalog.clock_timestamp()"
        # now() would be the start of the transaction.
        sql = Sql(f"SELECT CAST(extract(epoch FROM {clock}) * 1000000 AS bigint)")
        return int(session.query(sql, "reading the database's clock")[0][0]) * 1000

    # --- reading

    def reader(self, session: DriverSession, query: Sql, options: ReadOptions, table: JdbcTable | None = None) -> RowReader:
        doing = f"reading {table.name}" if table is not None else "running the query"
        nested = session.connection.in_transaction()
        text = inline_values(session, query)
        with session.guarded(doing):
            pgconn = libpq.begin(session)
        columns = result_columns(session, pgconn, text, self._types, doing)
        plan = self._plan(columns, options, table)
        return open_reader(session, text, plan, options.batch_rows, doing, nested=nested)

    def _plan(self, columns: Sequence[PostgresResultColumn], options: ReadOptions, table: JdbcTable | None) -> PostgresReadPlan:
        name = table.name if table is not None else None
        key = (tuple(columns), options, name)
        plan = self._plans.get(key)
        if plan is None:
            plan = build_read_plan(columns, options, name)
            for message in plan.skipped:
                log.warning("%s; omitting it", message)
            while len(self._plans) >= _MOST_PLANS:
                self._plans.pop(next(iter(self._plans)), None)
            self._plans[key] = plan
        return plan

    def timestamp(self, ns: int, column: JdbcColumn | None, options: ReadOptions) -> Sql:
        """Returns a wall time in ``options.zone`` with its UTC offset: columns with a zone compare the instant, columns without
        one the wall time."""
        wall = shared.instant_to_wall_ns(ns, options.zone)
        micros = wall // 1000 * 1000
        text = format_timestamp(micros, "The time to compare with", format_offset((wall - ns) // NS_PER_SECOND))
        native = column.native if column is not None else None
        if isinstance(native, PostgresColumnDetails) and native.type.builtin == "date":
            return Sql(Bind(text), "::timestamp")
        return Sql(Bind(text))

    # --- creating and changing tables

    def column_type(self, field: SinkField) -> str:
        return ddl.column_type(field)

    def literal(self, field: SinkField) -> str:
        return ddl.literal(field)

    def create_table(self, name: TableName, fields: Sequence[SinkField]) -> Sql:
        _reject_long_names([name.name, *(field.name for field in fields)])
        return super().create_table(name, fields)

    def add_columns(self, table: JdbcTable, fields: Sequence[SinkField]) -> list[Sql]:
        _reject_long_names([field.name for field in fields])
        return super().add_columns(table, fields)

    # --- writing

    def writer(self, table: JdbcTable, fields: Sequence[SinkField], mode: InsertMode, options: WriteOptions) -> RowWriter:
        written = written_fields(table, fields, options)
        doing = f"writing to {table.name}"
        keys = [field for field in written if field.is_key]
        values = [field for field in written if not field.is_key]
        if mode is InsertMode.INSERT:
            return self._inserter(table, written, doing, options)
        if not keys:
            raise DataError(f"insert.mode={mode.value} of {table.name} needs a key: set pk.mode and pk.fields")
        if mode is InsertMode.UPSERT:
            return StatementWriter(self._upsert_sql(table, written, keys, values, options), written, doing)
        sets = [f"{self.quote(field.column.name)} = r.c{written.index(field)}" for field in values]
        if not sets:
            raise DataError(f"insert.mode=update of {table.name} has no columns to set because all fields are part of the key")
        selected, source = select_from_arrays(written)
        statement = (
            f"UPDATE {self.table_ref(table.name)} AS t SET {', '.join(sets)} FROM (SELECT {selected} FROM {source}) AS r "
            f"WHERE {self._matches(written)}"
        )
        return StatementWriter(statement, written, doing, last_of_key=True)

    def deleter(self, table: JdbcTable, keys: Sequence[SinkField], options: WriteOptions) -> RowWriter:
        written = [_as_key_field(field) for field in written_fields(table, keys, options)]
        selected, source = select_from_arrays(written)
        statement = (
            f"DELETE FROM {self.table_ref(table.name)} AS t USING (SELECT {selected} FROM {source}) AS r "
            f"WHERE {self._matches(written)}"
        )
        return StatementWriter(statement, written, f"deleting from {table.name}")

    def column_limits(self, column: JdbcColumn) -> ColumnLimits | None:
        native = column.native
        return column_limits(native.type, native.typmod) if isinstance(native, PostgresColumnDetails) else None

    def _inserter(self, table: JdbcTable, written: Sequence[WrittenField], doing: str, options: WriteOptions) -> RowWriter:
        target = f"{self.table_ref(table.name)} ({self._names(written)})"
        selected, source = select_from_arrays(written)
        few = StatementWriter(
            f"INSERT INTO {target}{_overriding_clause(written, options)} SELECT {selected} FROM {source}", written, doing
        )
        # COPY writes to identity columns that are GENERATED ALWAYS, which the server rejects in an INSERT.
        refused = not options.overrides_identity and any(field.native.always_identity for field in written)
        copies = isinstance(table, PostgresTable) and table.takes_copy and not refused
        return CopyWriter(target, few, written, doing) if copies else few

    def _upsert_sql(
        self,
        table: JdbcTable,
        written: Sequence[WrittenField],
        keys: Sequence[WrittenField],
        values: Sequence[WrittenField],
        options: WriteOptions,
    ) -> str:
        selected, source = select_from_arrays(written)
        sets = ", ".join(f"{self.quote(field.column.name)} = EXCLUDED.{self.quote(field.column.name)}" for field in values)
        # All tasks lock rows in the same order, which avoids deadlocks between them.
        order = ", ".join(str(written.index(field) + 1) for field in keys)
        return (
            f"INSERT INTO {self.table_ref(table.name)} AS t ({self._names(written)}){_overriding_clause(written, options)} "
            f"SELECT {selected} FROM {source} "
            f"ORDER BY {order} ON CONFLICT ({self._names(keys)}) DO " + (f"UPDATE SET {sets}" if sets else "NOTHING")
        )

    def _names(self, fields: Sequence[WrittenField]) -> str:
        return ", ".join(self.quote(field.column.name) for field in fields)

    def _matches(self, written: Sequence[WrittenField]) -> str:
        return " AND ".join(
            f"t.{self.quote(field.column.name)} = r.c{i}" for i, field in enumerate(written) if field.is_key
        )  # fmt: skip


def _overriding_clause(written: Sequence[WrittenField], options: WriteOptions) -> str:
    always = options.overrides_identity and any(field.native.always_identity for field in written)
    return " OVERRIDING SYSTEM VALUE" if always else ""


def _as_key_field(field: WrittenField) -> WrittenField:
    return WrittenField(field.name, field.column, field.encoder, field.null, True)


def _reject_long_names(names: Sequence[str]) -> None:
    for name in names:
        if len(name.encode()) > _MOST_NAME_BYTES:
            # PostgreSQL would truncate two names with the same start to the same name.
            raise ConfigError(f"{name!r} is too long: PostgreSQL truncates names to {_MOST_NAME_BYTES} bytes")
