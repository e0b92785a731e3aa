"""The connection test of the SQLite source, and the tables that its lists can name. Writes nothing."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from connect.config.finding import Finding
from connect.errors import ConfigError, ConnectError
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
from connect.paths import path_rules
from connect.suggestions import list_names
from connectors.cdc.schema.checks import check_table_topics, find_missing_keys
from connectors.cdc.schema.filters import Filters
from connectors.sqlite.config import SqliteConfig, parse_config
from connectors.sqlite.config_keys import config_def
from connectors.sqlite.connection import SqliteConnection
from connectors.sqlite.schema.catalog import MAIN, SqliteTable, read_captured_tables, read_tables

_FILE: Final = "database.file"
_MOST_BUSY_S: Final = 5.0
"""How long a test waits for a lock at most."""


class SqliteSystem:
    """Implements :class:`connect.external_system.ExternalSystem`."""

    def __init__(self, config: Mapping[str, str]) -> None:
        """Raises ConfigError if the file is not configured."""
        self._settings, self._problems = parse_leniently(
            config, config_def(), parse_config, lambda key: key == _FILE, {"topic.prefix": "unset"}
        )
        self._connection: SqliteConnection | None = None

    def test_connection(self) -> Iterator[ConnectionStep]:
        if self._problems:
            yield ConnectionStep("Configuration", findings=self._problems)
        settings = self._settings
        try:
            connection = self._connect()
            journal = connection.journal_mode()
        except ConnectError as e:
            yield ConnectionStep("File", findings=(_finding(e, _FILE),))
            return
        yield _file_step(settings.file, journal)
        if settings.snapshot.mode != "initial_only":
            yield _step("Triggers", lambda: _check_writing(connection))
        filters = Filters(settings.capture)
        try:
            tables = read_captured_tables(connection, filters)
        except ConnectError as e:
            yield ConnectionStep("Tables", findings=(_finding(e),))
            return
        yield _tables_step(tables, settings)
        yield _keys_step(tables, filters)

    def data_collections(self) -> Sequence[DataCollection]:
        tables = read_tables(self._connect(), lambda name: True)
        return [_collection(table) for table in tables[: MAX_COLLECTIONS + 1]]

    def cancel(self) -> None:
        if self._connection is not None:
            self._connection.interrupt()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _connect(self) -> SqliteConnection:
        if self._connection is None:
            settings = self._settings
            path_rules().require(settings.file, _FILE)
            self._connection = SqliteConnection(settings.file, min(settings.busy_timeout_s, _MOST_BUSY_S))
        return self._connection


def _step(name: str, check: Callable[[], str]) -> ConnectionStep:
    return check_step(name, check, _finding)


def _finding(error: ConnectError, path: str | None = None) -> Finding:
    if isinstance(error, ConfigError):
        return error_finding("invalid-config", error.message, error.key or path)
    return error_finding("database-error", error.message, path)


def _file_step(path: str, journal: str) -> ConnectionStep:
    findings: list[Finding] = []
    if journal != "wal":
        findings.append(
            warning_finding(
                "no-wal",
                f"the database is in journal mode {journal}: writers wait while the connector reads",
                None,
                "PRAGMA journal_mode = WAL",
            )
        )
    size = os.path.getsize(path) if os.path.exists(path) else 0
    return ConnectionStep("File", f"{path}, {size:,} bytes, read with SQLite {sqlite3.sqlite_version}", findings)


def _check_writing(connection: SqliteConnection) -> str:
    """Takes the lock of writers for a moment."""
    connection.execute("BEGIN IMMEDIATE", what="begin to write")
    connection.execute("ROLLBACK", what="end writing")
    return "the connector may create its triggers and its change table"


def _tables_step(tables: Sequence[SqliteTable], settings: SqliteConfig) -> ConnectionStep:
    if not tables:
        listed = settings.capture.table_include
        why = f"table.include.list={','.join(listed)} matches no table" if listed else "the database has no table to capture"
        nothing = warning_finding(
            "no-table", why, "table.include.list", f"Its entries are regular expressions for {MAIN}[.]<table>"
        )
        return ConnectionStep("Tables", findings=(nothing,))

    def check() -> str:
        check_table_topics([(table.schema, table.name) for table in tables], settings.topic_naming)
        return f"{len(tables)} captured: {list_names(tables)}"

    return _step("Tables", check)


def _keys_step(tables: Sequence[SqliteTable], filters: Filters) -> ConnectionStep:
    without = [table for table in tables if not table.key and filters.key_columns(MAIN, table.name) is None]
    findings = find_missing_keys(without, ", so records have no key")
    return ConnectionStep("Keys", f"{len(tables) - len(without)} with a key", findings)


def _collection(table: SqliteTable) -> DataCollection:
    findings: list[Finding] = []
    if not table.key:
        advice = "Add a primary key, or name its columns in message.key.columns"
        findings.append(warning_finding("no-primary-key", f"{table} has no primary key", None, advice))
    return DataCollection(
        str(table), regex_entry(MAIN, table.name), schema=MAIN, has_primary_key=bool(table.key), findings=findings
    )
