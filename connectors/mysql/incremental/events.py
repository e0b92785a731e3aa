"""The 'r' events of incremental snapshots."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from connect.data.struct import Struct
from connect.record import SourceRecord
from connectors.cdc.offsets import source_partition
from connectors.cdc.schema.errant_rows import errant_record
from connectors.mysql import offsets
from connectors.mysql.config import MySqlConfig
from connectors.mysql.incremental.window import ErrantRow
from connectors.mysql.schema import source_block as block
from connectors.mysql.schema.table_rows import MySqlTableRows


class IncrementalRowEvents:
    """Builds records of rows. Their source block has the position of the stream, at which the rows are as in the table."""

    def __init__(self, settings: MySqlConfig, version: str) -> None:
        self._settings = settings
        self._version = version
        self._partition = source_partition(settings.topic_prefix)

    def records(
        self, table: MySqlTableRows, rows: Sequence[list[Any] | ErrantRow], before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> list[SourceRecord]:
        """The events of rows: the last one has the offset ``after``, the others ``before``."""
        if not rows:
            return []
        ns = time.time_ns()
        source = self._source(table, before, ns)
        schemas, partition, topic = table.schemas, self._partition, table.topic
        times = ns // 1_000_000, ns // 1000, ns
        found: list[SourceRecord] = []
        for row in rows:
            if isinstance(row, ErrantRow):
                mode = self._settings.events.failure_mode
                name, columns = str(table.table), table.row_columns
                found.append(errant_record(row.error, topic, name, columns, row.cells, mode, partition, before))
                continue
            key = table.key_of(row)
            key_struct = None if key is None or schemas.key is None else Struct(schemas.key, key)
            envelope = [None, Struct(schemas.value, row), source, None, "r", *times]
            value = Struct(schemas.envelope, envelope)
            key_schema = None if key_struct is None else schemas.key
            found.append(SourceRecord(partition, before, topic, None, key_schema, key_struct, schemas.envelope, value))
        found[-1].source_offset = after
        return found

    def _source(self, table: MySqlTableRows, position: Mapping[str, Any], ns: int) -> Struct:
        """The source block, which the rows share."""
        is_mariadb = self._settings.is_mariadb
        name = block.connector_name(is_mariadb=is_mariadb)
        values = block.source_values(self._version, name, self._settings.topic_prefix, table.table.database, table.table.name)
        values[block.TS_MS], values[block.TS_US], values[block.TS_NS] = ns // 1_000_000, ns // 1000, ns
        values[block.SNAPSHOT] = "incremental"
        values[block.SERVER_ID] = position.get(offsets.SERVER_ID) or 0
        values[block.FILE], values[block.POS] = position[offsets.FILE], position[offsets.POSITION]
        return Struct(block.source_block(is_mariadb=is_mariadb), values)
