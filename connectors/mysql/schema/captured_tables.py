"""Versions of captured tables: one object of schemas and decoders per version, for snapshots and for the stream."""

from __future__ import annotations

import contextlib
import logging

from connectors.cdc.schema.contracts import ContractError, SchemaContracts
from connectors.cdc.schema.filters import Filters
from connectors.mysql.config import MySqlConfig
from connectors.mysql.schema.model import MySqlTable, TableId
from connectors.mysql.schema.table_rows import MySqlTableRows, table_version

log = logging.getLogger(__name__)


class MySqlCapturedTables:
    """Finds schemas and decoders of tables. It lives as long as the task and has no connection. Not thread-safe."""

    def __init__(self, settings: MySqlConfig, filters: Filters) -> None:
        self._settings = settings
        self.filters = filters
        self.contracts = SchemaContracts(settings.contracts)
        self._rows: dict[TableId, MySqlTableRows] = {}

    def captures(self, id: TableId) -> bool:
        """Whether changes of the table are emitted."""
        return self.filters.captures_table(id.database, id.name)

    def rows_of(self, table: MySqlTable) -> MySqlTableRows:
        """Returns schemas and decoders of a version; the same object as long as the version does not change.

        Raises DataError for a key that cannot be captured, and for a character set that cannot be decoded.
        """
        known = self._rows.get(table.id)
        if known is not None and known.table == table:
            return known
        filters = self.filters
        key = filters.key_columns(table.database, table.name) or table.key
        judgment = self.contracts.judge(str(table), lambda: table_version(table, key, filters), key)
        rows = MySqlTableRows(table, self._settings, filters, judgment)
        if known is not None:
            log.info("table %s has changed: its events have a new schema from now on", table)
        self._rows[table.id] = rows
        return rows

    def forget(self, id: TableId) -> None:
        """The table was dropped or renamed."""
        self._rows.pop(id, None)

    def capture(self, rows: MySqlTableRows) -> None:
        """A row of this version is captured next. Raises FrozenSchemaError and ContractError if its contract forbids that."""
        self.contracts.capture(rows.judgment)

    def snapshot_rows(self, table: MySqlTable) -> MySqlTableRows:
        """The same as :meth:`rows_of` for a snapshot. Raises FrozenSchemaError if its rows must not be captured."""
        rows = self.rows_of(table)
        with contextlib.suppress(ContractError):  # each row is reported
            self.capture(rows)
        return rows
