"""The 'r' events of incremental snapshots."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from connect.data.struct import Struct
from connect.record import SourceRecord
from connectors.postgres.config import PostgresConfig
from connectors.postgres.offsets import source_partition
from connectors.postgres.schema import envelope as env
from connectors.postgres.schema.row_decoder import NullInRequiredError, SnapshotDecoder, TableRows, snapshot_decoder
from connectors.postgres.schema.value_errors import CONVERSION_ERRORS, name_copy_value
from connectors.postgres.streaming.captured_tables import CapturedTables


class IncrementalEvents:
    """Builds records from lines of COPY."""

    def __init__(self, settings: PostgresConfig, tables: CapturedTables, version: str) -> None:
        self._settings = settings
        self._tables = tables
        self._version = version
        self._rows: TableRows | None = None
        self._decode: SnapshotDecoder | None = None

    def records(self, rows: TableRows, lines: list[str], offset: Mapping[str, Any]) -> list[SourceRecord]:
        """The events of lines, which share the offset."""
        if not lines:
            return []
        ns = time.time_ns()
        source = self._source(rows, offset, ns)
        partition = source_partition(self._settings.topic_prefix)
        while True:
            if self._decode is None or self._rows is not rows:
                self._rows, self._decode = rows, snapshot_decoder(rows)
            try:
                return self._decode(lines, source, partition, offset, ns // 1_000_000, ns // 1000, ns)
            except NullInRequiredError as e:
                rows = self._tables.make_nullable(rows, e.column)
            except CONVERSION_ERRORS as e:
                raise name_copy_value(rows, lines, e) from e

    def _source(self, rows: TableRows, offset: Mapping[str, Any], ns: int) -> Struct:
        """The source block: the position of the stream, at which the rows are as they are in the table."""
        settings, table, lsn = self._settings, rows.table, offset["lsn"]
        values = env.source_values(self._version, settings.topic_prefix, settings.address.database, table.schema, table.name)
        values[env.TS_MS], values[env.TS_US], values[env.TS_NS] = ns // 1_000_000, ns // 1000, ns
        values[env.SNAPSHOT] = "incremental"
        values[env.TX_ID], values[env.LSN], values[env.XMIN] = offset.get("txId"), lsn, offset.get("xmin")
        values[env.SEQUENCE] = f'["{offset["lsn_commit"]}","{lsn}"]'
        return Struct(env.SOURCE, values)
