"""Follows the structure of tables: applies DDL, stores it, and settles tables whose structure is not known."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from connect.data.struct import Struct
from connect.errors import DataError
from connect.record import SourceRecord
from connectors.cdc.name_adjustment import schema_name_adjuster
from connectors.cdc.schema.errant_rows import SKIP_LEVELS
from connectors.mysql.binlog import Query, TableMap
from connectors.mysql.catalog import read_collations, read_create_table
from connectors.mysql.config import MySqlConfig
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.schema.captured_tables import MySqlCapturedTables
from connectors.mysql.schema.ddl import (
    Change,
    DatabaseChange,
    DdlKind,
    TableDdlChange,
    UnparsedDdlError,
    changed_tables,
    parse_create_table,
)
from connectors.mysql.schema.history.ddl_selection import DdlSelection
from connectors.mysql.schema.model import MySqlTable, TableId
from connectors.mysql.schema.schema_change_events import SchemaChangeEvents
from connectors.mysql.schema.table_map_check import find_difference, table_from_map
from connectors.mysql.schema.tables import StatementSettings, TableStructures
from connectors.mysql.streaming.change_events import BinlogEventBuilder
from connectors.mysql.types.charsets import find_charset

log = logging.getLogger(__name__)

SourceOf = Callable[[str, str | None], Struct]
"""Returns the source block of an event about a database, and perhaps a table of it."""


class StructureChanges:
    """Applies statements of the log to the structure of tables. Not thread-safe.

    ``connect`` returns a connection for catalog queries; it may raise ConnectionLostError.
    """

    def __init__(
        self,
        settings: MySqlConfig,
        structures: TableStructures,
        tables: MySqlCapturedTables,
        selection: DdlSelection,
        builder: BinlogEventBuilder,
        connect: Callable[[], MySqlConnection],
    ) -> None:
        self._settings = settings
        self.structures = structures
        self._tables = tables
        self._selection = selection
        self._connect = connect
        self._partition = builder.partition
        self._collations: Mapping[int, str] = {}
        adjust = schema_name_adjuster(settings.events.schema_name_adjustment)
        self.events = SchemaChangeEvents(
            builder.connector, builder.source, adjust=adjust, include_comments=settings.types.includes_comments
        )

    def changes_of(self, query: Query, sql: str) -> list[Change]:
        """Returns what a statement changes; nothing for statements that are filtered out, or cannot be parsed and do not matter.

        Raises UnparsedDdlError.
        """
        if self._selection.is_ignored(sql):
            return []
        context = StatementSettings(query.sql_mode or 0, query.explicit_defaults_for_timestamp, query.error_code)
        try:
            changes = self.structures.changes_of(sql, query.schema or None, context)
        except UnparsedDdlError as e:
            return self._settle_unparsed(e, sql)
        return [self._settled(change) for change in changes]

    def _settle_unparsed(self, error: UnparsedDdlError, sql: str) -> list[Change]:
        """A statement that is not understood matters only if it concerns captured tables."""
        if error.tables and not any(map(self._tables.captures, error.tables)):
            log.warning("a statement about tables that are not captured is left out of their structure: %s", error.message)
            return [TableDdlChange(DdlKind.ALTER, id, None, sql, unknown=error.reason) for id in error.tables]
        if self._settings.history.skips_unparseable:
            log.warning("skipping a statement (schema.history.internal.skip.unparseable.ddl=true): %s", error.message)
            return []
        raise error

    def _settled(self, change: Change) -> Change:
        """Reads the table from the server if the statement does not say its structure. TABLE_MAP is compared with it before its
        first row is decoded."""
        if isinstance(change, DatabaseChange) or change.unknown is None or not self._tables.captures(change.id):
            return change
        table = self._read_table(change.id)
        if table is None:
            log.warning("the structure of table %s is not known after a statement: %s", change.id, change.unknown)
            return change
        return TableDdlChange(change.kind, change.id, table, change.ddl, change.previous_id)

    def _read_table(self, id: TableId) -> MySqlTable | None:
        """Reads a table from the server, where it may be newer; None if it does not exist any more."""
        text = read_create_table(self._connect(), *id)
        if text is None:
            return None
        return parse_create_table(text, id.database, self.structures.context())

    def record(
        self,
        changes: Sequence[Change],
        query: Query,
        sql: str,
        position: Mapping[str, Any],
        source: SourceOf,
    ) -> list[SourceRecord]:
        """Stores a statement and applies its changes; returns the schema change events, whose offset is ``position``, that
        behind the statement. ``source`` returns their source blocks."""
        changes = [change for change in changes if change.kind is not DdlKind.TRUNCATE]
        if not changes:
            return []  # TRUNCATE changes rows, not the structure
        ts_ms = time.time_ns() // 1_000_000
        database = query.schema or None
        stored = self.structures.record(changes, position, database, sql, ts_ms=ts_ms)
        for id in changed_tables(changes):
            if id not in self.structures.tables:
                self._tables.forget(id)
        if not stored or not self._settings.schema_changes:
            return []
        return self._schema_events(changes, position, source, ts_ms=ts_ms)

    def _schema_events(
        self,
        changes: Sequence[Change],
        position: Mapping[str, Any],
        source: SourceOf,
        *,
        ts_ms: int,
    ) -> list[SourceRecord]:
        """The schema change events of a statement: one per table that it changes, or one for its database."""
        found: list[SourceRecord] = []
        for change in changes:
            name = change.name if isinstance(change, DatabaseChange) else change.id.database
            table = None if isinstance(change, DatabaseChange) else change.id.name
            tables = [change] if isinstance(change, TableDdlChange) else []
            block, topic = source(name, table), self._settings.topic_prefix
            found.append(self.events.record(self._partition, position, topic, block, name, change.ddl, tables, ts_ms=ts_ms))
        return found

    # --- tables whose structure is not known ----------------------------------------------------------------------------------

    def table_of(self, table_map: TableMap, position: Callable[[], Mapping[str, Any]]) -> MySqlTable | None:
        """Returns the structure of a captured table as the log describes it; None if its changes are skipped.

        ``position`` returns the current offset, with which a structure that had to be found out is stored. Raises DataError if
        the structure is not known and ``inconsistent.schema.handling.mode`` is fail.
        """
        id = TableId(table_map.schema, table_map.table)
        table = self.structures.tables.get(id)
        if table is None:
            difference = f"the schema history does not have table {id}"
        elif (found := find_difference(table, table_map)) is not None:
            difference = found
        else:
            return table
        if table_map.metadata.names is not None:
            return self._from_log(id, table_map, difference, position())
        mode = self._settings.inconsistent_schema
        if mode == "fail":
            raise DataError(
                f"changes of table {id} cannot be decoded: {difference}. The table was altered without a log (sql_log_bin=0), or "
                "was not captured before, or the history is incomplete. Set binlog_row_metadata=FULL on the server, rebuild the "
                "history with snapshot.mode=recovery, or skip such changes with inconsistent.schema.handling.mode=warn"
            )
        log.log(
            SKIP_LEVELS[mode], "skipping changes of table %s (inconsistent.schema.handling.mode=%s): %s", id, mode, difference
        )
        return None

    def _from_log(self, id: TableId, table_map: TableMap, difference: str, position: Mapping[str, Any]) -> MySqlTable:
        """The log has names and types of columns (binlog_row_metadata=FULL); the server may add defaults and keys."""
        log.warning("%s; taking the structure of the table from the binary log", difference)
        try:
            table = self._read_table(id)
        except DataError as e:
            log.warning("the statement that creates table %s is not used: %s", id, e.message)
            table = None
        if table is None or find_difference(table, table_map) is not None:
            table = table_from_map(table_map, self._charset_of, lambda data, charset: find_charset(charset).decode(data))
        change = TableDdlChange(DdlKind.CREATE, id, table, "")
        self.structures.record([change], position, id.database, "", ts_ms=time.time_ns() // 1_000_000)
        return table

    def text_of(self, query: Query) -> str:
        """Returns the text of a statement, which is in the character set of its session. Raises DataError."""
        try:
            return query.sql.decode()
        except UnicodeDecodeError as e:
            charset = self._charset_of(query.charset_client or 0)
            if charset is None:
                raise DataError(f"a statement is no UTF-8, and its character set {query.charset_client} is unknown: {e}") from e
            return find_charset(charset).decode(query.sql)

    def _charset_of(self, collation: int) -> str | None:
        if not self._collations:
            self._collations = read_collations(self._connect())
        return self._collations.get(collation)


def explain_lost_rows(what: str) -> DataError:
    """The error for changes that the log has, but not as rows."""
    return DataError(
        f"{what}: the binary log does not have its rows, because a session uses binlog_format=STATEMENT or MIXED. Set "
        "binlog_format=ROW globally and let all sessions reconnect, then read the table again with an incremental snapshot, and "
        "set event.processing.failure.handling.mode=warn to pass this statement"
    )
