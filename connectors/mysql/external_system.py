"""The connection test of the MySQL and MariaDB sources, and the tables that their lists can name. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from connect.config.finding import Finding
from connect.errors import ConfigError, ConnectError, UnreachableError
from connect.external_system import (
    MAX_COLLECTIONS,
    ConnectionStep,
    DataCollection,
    check_step,
    error_finding,
    parse_leniently,
    regex_entry,
    warning_finding,
)
from connect.suggestions import list_names
from connectors.cdc.interrupt import Interrupt
from connectors.cdc.schema.checks import find_missing_keys
from connectors.cdc.schema.filters import Filters
from connectors.databases.mysql.built_in import BUILT_IN_DATABASES
from connectors.mysql.binlog_client import BinlogClient, BinlogClientSettings, FilePosition
from connectors.mysql.catalog import TableInfo, read_primary_keys, read_tables
from connectors.mysql.config import MySqlConfig, parse_config
from connectors.mysql.config_keys import config_def
from connectors.mysql.connection import MySqlConnection, quote_name, quote_value
from connectors.mysql.server import (
    ServerInfo,
    check_server,
    describe_replicas,
    read_position,
    read_replication_source,
    read_server,
)
from connectors.mysql.system_checks import check_captured_tables, check_table_list, filter_tables

_QUERY_TIMEOUT_S: Final = 20.0
_SHORT_RETENTION_S: Final = 86_400
_REQUIRED: Final = {
    "topic.prefix": "unset",
    "database.server.id": "1",
    "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
}
"""Keys that the connection does not need, with values in their place."""
_CONNECTION_KEYS: Final = ("database.hostname", "database.port", "database.user", "database.password")
_CONNECTION_PREFIXES: Final = ("database.ssl", "connect.", "database.initial")


class MySqlSystem:
    """Implements :class:`connect.external_system.ExternalSystem`."""

    def __init__(self, config: Mapping[str, str], *, is_mariadb: bool) -> None:
        """Raises ConfigError if a key of the connection is missing or wrong."""
        self._settings, self._problems = parse_leniently(
            config,
            config_def(is_mariadb=is_mariadb),
            partial(parse_config, is_mariadb=is_mariadb),
            _is_of_connection,
            _REQUIRED,
        )
        self._interrupt = Interrupt()
        self._connection: MySqlConnection | None = None

    def test_connection(self) -> Iterator[ConnectionStep]:
        if self._problems:
            yield ConnectionStep("Configuration", findings=self._problems)
        settings = self._settings
        try:
            sql = self._connect()
            server = read_server(sql)
        except ConnectError as e:
            yield ConnectionStep("Connection", findings=(_finding(e, "database.hostname"),))
            return
        tls = sql.socket.tls_version or "no TLS"
        yield ConnectionStep("Connection", f"{server.version_text} at {sql.address} ({tls})")
        yield _binlog_step(sql, server)
        if settings.snapshot.mode != "initial_only":
            yield check_step("Replication", lambda: self._check_replication(sql, server), _finding)
        yield _guarded("Server ID", lambda: _server_id_step(sql, server, settings))
        filters = Filters(settings.capture)
        captured: list[TableInfo] = []
        yield _guarded("Tables", lambda: _tables_step(sql, captured, settings, filters))
        if captured:
            yield _guarded("Keys", lambda: _keys_step(sql, captured, filters))

    def data_collections(self) -> Sequence[DataCollection]:
        built_in = ", ".join(map(quote_value, BUILT_IN_DATABASES))
        rows = self._connect().query(
            "SELECT t.table_schema, t.table_name, t.table_type, t.engine, t.table_rows, t.data_length, EXISTS (SELECT 1 FROM "
            "information_schema.statistics s WHERE s.table_schema = t.table_schema AND s.table_name = t.table_name AND "
            "s.index_name = 'PRIMARY') FROM information_schema.tables t WHERE t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') "
            f"AND t.table_schema NOT IN ({built_in}) ORDER BY 1, 2 LIMIT {MAX_COLLECTIONS + 1}"
        )
        return [_collection(row) for row in rows]

    def cancel(self) -> None:
        self._interrupt.set()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._interrupt.close()

    def _connect(self) -> MySqlConnection:
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def _open(self) -> MySqlConnection:
        return MySqlConnection.open(self._settings.address, self._interrupt, query_timeout_s=_QUERY_TIMEOUT_S)

    def _check_replication(self, sql: MySqlConnection, server: ServerInfo) -> str:
        """Registers as a replica and reads from the end of the log. A server ID of its own leaves a running task alone."""
        position = read_position(sql, server)
        settings = BinlogClientSettings(server_id=sql.thread_id + (1 << 31), ends_at_end=True)
        client = BinlogClient.open(self._open(), FilePosition(position.file, position.position), settings)
        try:
            client.read(_QUERY_TIMEOUT_S)
        finally:
            client.close()
        return f"user {sql.address.user} may read the binary log, which is at {position.file}:{position.position}"


def _is_of_connection(key: str) -> bool:
    return key in _CONNECTION_KEYS or key.startswith(_CONNECTION_PREFIXES)


def _guarded(name: str, create: Callable[[], ConnectionStep]) -> ConnectionStep:
    """A step; a failed one if the server cannot be asked."""
    try:
        return create()
    except ConnectError as e:
        return ConnectionStep(name, findings=(_finding(e),))


def _finding(error: ConnectError, path: str | None = None) -> Finding:
    if isinstance(error, UnreachableError):
        return error_finding("unreachable", error.message, path)
    if isinstance(error, ConfigError):
        return error_finding("server-setup", error.message, error.key or path)
    return error_finding("server-error", error.message, path)


def _binlog_step(sql: MySqlConnection, server: ServerInfo) -> ConnectionStep:
    try:
        check_server(sql, server)
    except ConnectError as e:
        return ConnectionStep("Binary log", findings=(_finding(e),))
    findings: list[Finding] = []
    if server.row_image == "NOBLOB":
        findings.append(
            warning_finding(
                "no-blobs",
                "binlog_row_image=NOBLOB: updates lack large values that did not change, so events have a placeholder",
                "unavailable.value.placeholder",
                "SET GLOBAL binlog_row_image = 'FULL'",
            )
        )
    if not server.has_full_metadata:
        findings.append(
            warning_finding(
                "no-full-metadata",
                "binlog_row_metadata is not FULL: the log does not name columns, so a structure that the schema history lacks "
                "cannot be found out",
                None,
                "SET GLOBAL binlog_row_metadata = 'FULL' (MySQL 8.0 and MariaDB 10.5 or later)",
            )
        )
    if 0 < server.expires_s < _SHORT_RETENTION_S:
        findings.append(
            warning_finding(
                "short-retention",
                f"the server removes files of the log after {server.expires_s} s: a connector that is stopped longer needs a "
                "new snapshot",
                None,
                "Raise binlog_expire_logs_seconds or expire_logs_days",
            )
        )
    gtids = "with GTIDs" if server.uses_gtids else "without GTIDs, so a failover needs a new snapshot"
    return ConnectionStep("Binary log", f"rows, image {server.row_image}, {gtids}", findings)


def _server_id_step(sql: MySqlConnection, server: ServerInfo, settings: MySqlConfig) -> ConnectionStep:
    server_id, what = settings.binlog.server_id, "Server ID"
    if server_id == server.server_id:
        used = error_finding(
            "server-id-of-server", f"database.server.id={server_id} is the server's own", "database.server.id", "Choose another"
        )
        return ConnectionStep(what, findings=(used,))
    source = read_replication_source(sql, server)
    detail = f"{server_id}, of a server that is no replica" if source is None else f"{server_id}, of a replica of {source}"
    if not (found := describe_replicas(sql, server_id)):
        return ConnectionStep(what, detail)
    warning = warning_finding(
        "server-id-in-use",
        f"{found} reads the binary log with this ID, as it should if this connector is running",
        "database.server.id",
        "Otherwise choose another: the server disconnects the first of two readers with the same ID",
    )
    return ConnectionStep(what, detail, (warning,))


def _tables_step(sql: MySqlConnection, captured: list[TableInfo], settings: MySqlConfig, filters: Filters) -> ConnectionStep:
    """Adds the captured tables to ``captured``."""
    tables = read_tables(sql)
    captured += filter_tables(tables, filters)
    if not captured and not settings.capture.table_include:
        nothing = warning_finding(
            "no-table", "no table is captured", "database.include.list", "Its entries are regular expressions for databases"
        )
        return ConnectionStep("Tables", findings=(nothing,))
    check_table_list(tables, captured, settings)
    check_captured_tables(captured, settings)
    return ConnectionStep("Tables", f"{len(captured)} captured: {list_names(captured)}")


def _keys_step(sql: MySqlConnection, captured: Sequence[TableInfo], filters: Filters) -> ConnectionStep:
    keys = read_primary_keys(sql, [(table.database, table.name) for table in captured])
    without = [
        table
        for table in captured
        if (table.database, table.name) not in keys and filters.key_columns(table.database, table.name) is None
    ]
    findings = find_missing_keys(without, ": records have the columns of a unique index as their key, or none")
    return ConnectionStep("Keys", f"{len(captured) - len(without)} with a primary key", findings)


def _collection(row: Sequence[str | None]) -> DataCollection:
    database, name, kind, engine, rows, size, has_primary = row
    database, name = database or "", name or ""
    full_name = f"{database}.{name}"
    findings: list[Finding] = []
    if has_primary != "1":
        advice = f"ALTER TABLE {quote_name(database, name)} ADD PRIMARY KEY (...), or name its columns in message.key.columns"
        findings.append(warning_finding("no-primary-key", f"{full_name} has no primary key", None, advice))
    return DataCollection(
        full_name,
        regex_entry(database, name),
        "table" if kind == "BASE TABLE" else "system-versioned table",
        database,
        None,
        None if rows is None else int(rows),
        None if size is None else int(size),
        has_primary == "1",
        {"engine": engine or "unknown"},
        findings,
    )
