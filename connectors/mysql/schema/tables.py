"""The structure of all tables at the current position, and its schema history."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connectors.mysql.schema.ddl import Change, DdlContext, apply, apply_changes
from connectors.mysql.schema.history.history import SchemaHistory
from connectors.mysql.schema.model import MySqlTable, TableId
from connectors.mysql.server import ServerInfo

log = logging.getLogger(__name__)

StoresDdl = Callable[[str, str | None, Sequence[Change]], bool]
"""``stores(ddl, database, changes)``: whether a statement belongs in the history (``DdlSelection.is_stored``)."""


@dataclass(frozen=True, slots=True)
class StatementSettings:
    """What a statement depends on besides the server. Values of None are unknown."""

    sql_mode: int = 0
    explicit_defaults_for_timestamp: bool | None = None
    error_code: int = 0


_NO_CONTEXT = StatementSettings()


class TableStructures:
    """The tables and the character sets of databases. Both mappings may be changed. Not thread-safe."""

    def __init__(self, history: SchemaHistory, stores: StoresDdl) -> None:
        self.history = history
        self._stores = stores
        self._server: ServerInfo | None = None
        self.tables: dict[TableId, MySqlTable] = {}
        self.database_charsets: dict[str, str] = {}
        self.last_recovered: Mapping[str, Any] | None = None
        """The position of the last record that was recovered, until the next statement."""

    def set_server(self, server: ServerInfo) -> None:
        """Sets the server whose statements are applied next."""
        self._server = server

    def context(self, statement: StatementSettings = _NO_CONTEXT) -> DdlContext:
        """Returns the context in which a statement is parsed."""
        server = self._server
        assert server is not None
        major, minor, patch = server.version
        return DdlContext(
            is_mariadb=server.is_mariadb,
            server_version=major * 10_000 + minor * 100 + patch,
            sql_mode=statement.sql_mode,
            server_charset=server.variables.get("character_set_server"),
            database_charsets=self.database_charsets,
            explicit_defaults_for_timestamp=statement.explicit_defaults_for_timestamp,
            lower_case_table_names=server.lower_case_table_names,
        )

    def recover(self, offset: Mapping[str, Any]) -> int:
        """Sets the structure at a stored offset from the history; returns the number of records that were applied.

        Raises UnparsedDdlError, and ConnectError if the history cannot be read.
        """
        recovered = self.history.recover(offset, self.context())
        self.tables, self.database_charsets = recovered.tables, recovered.database_charsets
        self.last_recovered = recovered.last_position
        return recovered.record_count

    def changes_of(self, ddl: str, database: str | None, statement: StatementSettings = _NO_CONTEXT) -> list[Change]:
        """Returns what a statement changes, without changing it here. Raises UnparsedDdlError."""
        return apply(self.tables, ddl, database, self.context(statement), error_code=statement.error_code)

    def record(
        self, changes: Sequence[Change], position: Mapping[str, Any], database: str | None, ddl: str, *, ts_ms: int
    ) -> bool:
        """Applies changes, and stores their statement if it belongs in the history; returns whether it does.

        ``position`` is the source offset behind the statement: recovery applies it to offsets at or after that. Promise 1: the
        statement is durable on return, so that events of the new version may be emitted, except in ``history.buffered()``.
        """
        stored = self._stores(ddl, database, changes)
        if stored:
            self.history.record(position, database, ddl, changes, ts_ms=ts_ms)
        apply_changes(changes, self.tables, self.database_charsets)
        return stored
