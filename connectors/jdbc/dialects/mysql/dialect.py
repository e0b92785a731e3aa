"""The dialect of MySQL and MariaDB."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from connect.errors import ConfigError, DataError
from connectors.jdbc.catalog import JdbcColumn, JdbcTable, TableStatistics
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects.column_limits import ColumnLimits
from connectors.jdbc.dialects.dialect import Dialect, RowReader, RowWriter
from connectors.jdbc.dialects.mysql import catalog as system_catalog
from connectors.jdbc.dialects.mysql import ddl, writer
from connectors.jdbc.dialects.mysql.catalog import MySqlColumnDetails
from connectors.jdbc.dialects.mysql.column_limits import column_limits
from connectors.jdbc.dialects.mysql.errors import classify_error, error_message
from connectors.jdbc.dialects.mysql.reader import MySqlReadPlanCache, open_reader
from connectors.jdbc.dialects.mysql.statements import kill_query
from connectors.jdbc.dialects.types import datetime_to_wall_ns, format_wall_ns, instant_to_wall_ns
from connectors.jdbc.errors import ErrorKind
from connectors.jdbc.options import InsertMode, ReadOptions, SinkField, WriteOptions
from connectors.jdbc.sql import Bind, Sql, joined
from connectors.jdbc.table_name import TableName, split_name
from connectors.jdbc.urls.connection_url import ConnectionTarget

log = logging.getLogger(__name__)

_SESSION: tuple[str, ...] = (
    # Promise 8: strict mode rejects values that do not fit. 0 is an ordinary number, and a backslash is an escape, as in our
    # literals. Other modes of the server or the URL remain.
    "SET SESSION sql_mode = TRIM(BOTH ',' FROM CONCAT_WS(',', "
    "REPLACE(REPLACE(@@SESSION.sql_mode, 'NO_BACKSLASH_ESCAPES', ''), 'PAD_CHAR_TO_FULL_LENGTH', ''), "
    "'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO'))",
    # A TIMESTAMP is an instant: it is read and written in UTC.
    "SET SESSION time_zone = '+00:00'",
)


class MySqlDialect(Dialect):
    """MySQL 5.7 and later, MariaDB 10.6 and later."""

    name: ClassVar[str] = "MySQL"
    paramstyle: ClassVar[str] = "format"
    transactional_ddl: ClassVar[bool] = False
    savepoints: ClassVar[bool] = True

    def __init__(self, target: ConnectionTarget, *, quotes: bool = True) -> None:
        """Raises ConfigError for drivers other than PyMySQL, whose internals this dialect uses."""
        super().__init__(target, quotes=quotes)
        if (driver := target.url.get_driver_name()) != "pymysql":
            raise ConfigError(
                f"{target.label} requires the driver PyMySQL, not {driver}: use mysql+pymysql:// or jdbc:mysql://",
                key="connection.url",
            )
        # jdbc:mariadb:, whose driver returns booleans where MySQL's returns int8. A SQLAlchemy URL emulates neither driver.
        self._booleans = target.url.get_backend_name() == "mysql" and target.label.startswith("mariadb:")
        self._plans = MySqlReadPlanCache()

    # --- names

    def _quoted(self, name: str) -> str:
        """Raises DataError for characters that names cannot contain; MySQL would replace each by a question mark."""
        if not name.isascii() and max(name) > "\uffff":
            raise DataError(
                f"{name!r} is not a valid name of a table or column: {self.target.label} does not support characters beyond "
                "U+FFFF (such as emoji) in names; rename it with ReplaceField, RegexRouter, or table.name.format"
            )
        return "`" + name.replace("`", "``") + "`"

    def parse_name(self, text: str) -> TableName:
        """Parses ``table`` or ``database.table``."""
        parts = split_name(text)
        if len(parts) > 2:
            raise ConfigError(f"{text!r} is not a table name: expected [database.]table")
        return TableName(*reversed(parts))

    # --- sessions

    def session_statements(self, statement_timeout_ms: int) -> Sequence[str]:
        if not statement_timeout_ms:
            return _SESSION
        # Each server executes its own comment and ignores the other's (MariaDB ignores 50700 to 99999). MySQL's limit applies to
        # SELECT only.
        mysql = f"/*!50708 , SESSION max_execution_time = {statement_timeout_ms:d} */"
        mariadb = f"/*M! , SESSION max_statement_time = {statement_timeout_ms / 1000:.3f} */"
        return (*_SESSION, f"SET @statement_timeout_ms = {statement_timeout_ms:d} {mysql} {mariadb}")

    def classify(self, error: BaseException) -> ErrorKind:
        return classify_error(error)

    def error_message(self, error: BaseException) -> str:
        return error_message(error)

    def cancel(self, driver_connection: Any) -> None:
        with contextlib.suppress(Exception):
            kill_query(self.target, driver_connection)

    # --- catalog

    def tables(
        self, session: DriverSession, kinds: Collection[str], *, catalog: str | None = None, schema: str | None = None
    ) -> list[tuple[TableName, str]]:
        if catalog is None and not schema and self.target.current_database_only:
            catalog = re.sub(r"([\\%_])", r"\\\1", self.target.url.database or "") or None
        return system_catalog.tables(session, kinds, catalog, schema)

    def statistics(
        self, session: DriverSession, *, catalog: str | None = None, schema: str | None = None
    ) -> Mapping[TableName, TableStatistics]:
        return system_catalog.statistics(session, catalog, schema)

    def describe(self, session: DriverSession, name: TableName) -> JdbcTable | None:
        self.table_ref(name)  # raises an error for an invalid name
        return system_catalog.describe(session, name)

    def now(self, session: DriverSession) -> int:
        rows = session.query(Sql("SELECT UTC_TIMESTAMP(6)"), "asking for the time")
        return datetime_to_wall_ns(rows[0][0])

    # --- reading

    def reader(self, session: DriverSession, query: Sql, options: ReadOptions, table: JdbcTable | None = None) -> RowReader:
        return open_reader(self, session, query, options, table, self._plans, booleans=self._booleans)

    def timestamp(self, ns: int, column: JdbcColumn | None, options: ReadOptions) -> Sql:
        """Returns an instant in microseconds, the finest precision of columns. Without a column, it is a DATETIME in
        ``db.timezone``."""
        instant = column is not None and isinstance(column.native, MySqlColumnDetails) and column.native.type == "timestamp"
        return Sql(Bind(format_wall_ns(ns if instant else instant_to_wall_ns(ns, options.zone), 6, " ")))

    # --- creating and changing tables

    def column_type(self, field: SinkField) -> str:
        return ddl.column_type(field)

    def create_table(self, name: TableName, fields: Sequence[SinkField]) -> Sql:
        keys = [self.quote(field.name) for field in fields if field.is_key]
        lines = [self._definition(field, field.sql_type or ddl.column_type(field, len(keys))) for field in fields]
        if keys:
            lines.append(Sql(f"PRIMARY KEY({','.join(keys)})"))
        return Sql(f"CREATE TABLE {self.table_ref(name)} (\n", joined(",\n", lines), ") DEFAULT CHARACTER SET utf8mb4")

    def _column_definition(self, field: SinkField) -> Sql:
        return self._definition(field, field.sql_type or self.column_type(field))

    def _definition(self, field: SinkField, type: str) -> Sql:
        head = f"{self.quote(field.name)} {type}"
        null = "NULL" if field.schema.optional and not field.is_key else "NOT NULL"
        if field.schema.default is not None:
            return Sql(f"{head} {null} DEFAULT {self.literal(field)}")
        return Sql(f"{head} {null}")

    def literal(self, field: SinkField) -> str:
        return ddl.default_literal(field)

    # --- writing

    def writer(self, table: JdbcTable, fields: Sequence[SinkField], mode: InsertMode, options: WriteOptions) -> RowWriter:
        match mode:
            case InsertMode.INSERT:
                return writer.insert_writer(self, table, fields, options)
            case InsertMode.UPSERT:
                if not (table.primary_key or table.unique_keys):
                    # Not an error: a unique index over a prefix works, but is not listed in unique_keys.
                    log.warning(
                        "insert.mode=upsert into %s, which has no primary key and no unique index over whole columns: MySQL then "
                        "inserts a row for each record; create one: CREATE UNIQUE INDEX",
                        table.name,
                    )
                return writer.upsert_writer(self, table, fields, options)
        return writer.update_writer(self, table, fields, options)

    def deleter(self, table: JdbcTable, keys: Sequence[SinkField], options: WriteOptions) -> RowWriter:
        return writer.delete_writer(self, table, keys, options)

    def column_limits(self, column: JdbcColumn) -> ColumnLimits | None:
        return column_limits(column.native) if isinstance(column.native, MySqlColumnDetails) else None
