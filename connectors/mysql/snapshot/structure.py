"""The structure of databases and tables at the point of a snapshot: statements that create them, as Debezium has them."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect.data.struct import Struct
from connect.record import SourceRecord
from connectors.cdc.errors import TablesChangedError
from connectors.cdc.name_adjustment import schema_name_adjuster
from connectors.cdc.offsets import source_partition
from connectors.mysql.catalog import DatabaseInfo, TableInfo, read_create_table, read_databases, read_tables
from connectors.mysql.config import MySqlConfig
from connectors.mysql.connection import MySqlConnection, quote_identifier, quote_name
from connectors.mysql.offsets import BinlogPosition
from connectors.mysql.schema import source_block as block
from connectors.mysql.schema.ddl import Change, DdlKind, TableDdlChange, UnparsedDdlError, parse_create_table
from connectors.mysql.schema.model import MySqlTable, TableId
from connectors.mysql.schema.schema_change_events import SchemaChangeEvents
from connectors.mysql.schema.tables import TableStructures
from connectors.mysql.server import ServerInfo

log = logging.getLogger(__name__)

_AUTO_INCREMENT = re.compile(r" AUTO_INCREMENT=\d+")
"""Changes with each row, and is no part of the structure."""


@dataclass(frozen=True, slots=True)
class CatalogTables:
    """The databases, and the statements that create tables; some of them are captured."""

    databases: tuple[DatabaseInfo, ...]
    statements: Mapping[TableId, str]
    infos: Mapping[TableId, TableInfo]

    def has_structure_of(self, other: CatalogTables) -> bool:
        """Whether nothing has changed in between."""
        return self.databases == other.databases and _without_counters(self) == _without_counters(other)


def _without_counters(tables: CatalogTables) -> dict[TableId, str]:
    return {id: _AUTO_INCREMENT.sub("", text) for id, text in tables.statements.items()}


class StructureReader:
    """Reads the structure of tables."""

    def __init__(self, is_wanted: Callable[[TableId], bool], captures_table: Callable[[TableId], bool]) -> None:
        self._is_wanted = is_wanted
        self._captures_table = captures_table

    def read(self, connection: MySqlConnection) -> CatalogTables:
        """Reads the tables that are wanted. Raises TablesChangedError if a captured one is dropped meanwhile."""
        infos = {TableId(info.database, info.name): info for info in read_tables(connection)}
        statements: dict[TableId, str] = {}
        for id in infos:
            if not self._is_wanted(id):
                continue
            statement = read_create_table(connection, *id)
            if statement is not None:
                statements[id] = statement
            elif self._captures_table(id):
                raise TablesChangedError(f"table {id} was dropped at the start of the snapshot")
        used = {id.database for id in statements}
        databases = tuple(database for database in read_databases(connection) if database.name in used)
        return CatalogTables(databases, statements, infos)


class StructureRecorder:
    """Stores the structure in the schema history, and creates schema change events."""

    def __init__(
        self,
        settings: MySqlConfig,
        structures: TableStructures,
        captures_table: Callable[[TableId], bool],
        server: ServerInfo,
        version: str,
    ) -> None:
        self._settings = settings
        self._structures = structures
        self._captures_table = captures_table
        self._server = server
        self._version = version
        self._connector = block.connector_name(is_mariadb=settings.is_mariadb)
        self._source = block.source_block(is_mariadb=settings.is_mariadb)
        self._partition = source_partition(settings.topic_prefix)
        self._events = SchemaChangeEvents(
            self._connector,
            self._source,
            adjust=schema_name_adjuster(settings.events.schema_name_adjustment),
            include_comments=settings.types.includes_comments,
        )

    def parse(self, tables: CatalogTables, ids: Collection[TableId]) -> dict[TableId, MySqlTable]:
        """Parses the statements of captured tables. Raises UnparsedDdlError unless such statements are skipped."""
        for database in tables.databases:
            self._structures.database_charsets[database.name] = database.charset
        found: dict[TableId, MySqlTable] = {}
        for id in ids:
            table = self._parse_table(id, tables.statements[id])
            if table is not None:
                found[id] = table
        return found

    def _parse_table(self, id: TableId, text: str) -> MySqlTable | None:
        try:
            return parse_create_table(text, id.database, self._structures.context())
        except UnparsedDdlError as e:
            if self._captures_table(id) and not self._settings.history.skips_unparseable:
                raise
            log.warning("table %s is left out of the schema history: %s", id, e.message)
            return None

    def record(self, tables: CatalogTables, position: BinlogPosition, offset: Mapping[str, Any]) -> list[SourceRecord]:
        """Stores the structure with ``offset``, all at once; returns the schema change events, if the configuration has them."""
        found: list[SourceRecord] = []
        self._structures.tables.clear()
        self._structures.database_charsets.clear()
        with self._structures.history.buffered():
            for database, ddl, changes in self._statements(tables):
                ts_ms = time.time_ns() // 1_000_000
                stored = self._structures.record(changes, offset, database, ddl, ts_ms=ts_ms)
                if stored and self._settings.schema_changes:
                    found.append(self._event(database, ddl, changes, position, offset, ts_ms))
        return found

    def _statements(self, tables: CatalogTables) -> list[tuple[str, str, list[Change]]]:
        """The statements in Debezium's order, with their database, and what they change."""
        variables = self._server.variables
        charset, collation = variables.get("character_set_server"), variables.get("collation_server")
        found: list[tuple[str, str, list[Change]]] = []
        found.append(("", f"SET character_set_server={charset}, collation_server={collation};", []))
        for id in tables.statements:
            ddl = f"DROP TABLE IF EXISTS {quote_name(*id)}"
            found.append((id.database, ddl, [TableDdlChange(DdlKind.DROP, id, None, ddl)]))
        for database in tables.databases:
            name = database.name
            quoted = quote_identifier(name)
            create = f"CREATE DATABASE {quoted} CHARSET {database.charset} COLLATE {database.collation}"
            for ddl in (f"DROP DATABASE IF EXISTS {quoted}", create, f"USE {quoted}"):
                found += [(name, ddl, self._structures.changes_of(ddl, name))]
            self._structures.database_charsets[name] = database.charset
            for id, text in tables.statements.items():
                if id.database == name and (table := self._parse_table(id, text)) is not None:
                    found.append((name, text, [TableDdlChange(DdlKind.CREATE, id, table, text)]))
        return found

    def _event(
        self,
        database: str,
        ddl: str,
        changes: Sequence[Change],
        position: BinlogPosition,
        offset: Mapping[str, Any],
        ts_ms: int,
    ) -> SourceRecord:
        of_tables = [change for change in changes if isinstance(change, TableDdlChange)]
        source = self._source_struct(database, of_tables[0].id.name if of_tables else None, position, ts_ms)
        return self._events.record(
            self._partition, offset, self._settings.topic_prefix, source, database, ddl, of_tables, ts_ms=ts_ms
        )

    def _source_struct(self, database: str, table: str | None, position: BinlogPosition, ts_ms: int) -> Struct:
        values = block.source_values(self._version, self._connector, self._settings.topic_prefix, database, table)
        values[block.TS_MS], values[block.TS_US], values[block.TS_NS] = ts_ms, ts_ms * 1000, ts_ms * 1_000_000
        values[block.SNAPSHOT] = "true"
        values[block.FILE], values[block.POS] = position.file, position.position
        return Struct(self._source, values)

    def settle(self, found: Mapping[TableId, MySqlTable], offset: Mapping[str, Any]) -> None:
        """Stores captured tables that differ from what the statements of the log say, after the stream has reached the point."""
        for id, table in found.items():
            if self._structures.tables.get(id) == table:
                continue
            log.warning("the structure of table %s is not that of the schema history; storing it", id)
            change = TableDdlChange(DdlKind.CREATE, id, table, "")
            self._structures.record([change], offset, id.database, "", ts_ms=time.time_ns() // 1_000_000)
