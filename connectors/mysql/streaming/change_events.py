"""Builds the records of change events: envelopes with their source block, tombstones, and headers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from connect.data.headers import Header, Headers
from connect.data.struct import Struct
from connect.record import SourceRecord
from connectors.cdc.offsets import source_partition
from connectors.cdc.streaming.record_forms import context_headers, tombstone_of
from connectors.mysql.config import MySqlConfig
from connectors.mysql.offsets import BinlogPosition, stream_offset
from connectors.mysql.schema import source_block as block
from connectors.mysql.schema.table_rows import MySqlTableRows


class EventValues(NamedTuple):
    """What changes share that come from one statement: values of their events, and of their offsets."""

    ts_ms: int
    """When the statement was executed, or its transaction committed, whichever the log has more precisely."""
    ts_us: int
    ts_ns: int
    server_id: int
    gtid: str | None
    file: str
    thread: int | None
    query: str | None
    now_ms: int
    now_us: int
    now_ns: int
    ts_sec: int
    """The timestamp of the events in the log."""
    offset_extras: Mapping[str, Any]
    """More members of offsets."""


class RowPlace(NamedTuple):
    """Where a row is: ``pos`` is the position of its event in the file, and ``row`` its number there, from 0."""

    row: int
    pos: int
    begin: BinlogPosition
    """The position in front of the event's first row."""

    def offset(self, values: EventValues, *, is_last: bool) -> dict[str, Any]:
        """The source offset behind the row; in front of it unless ``is_last``: another record of the row follows."""
        done = self.row + (1 if is_last else 0)
        begin = self.begin
        position = BinlogPosition(begin.file, begin.position, begin.gtids, begin.events, done, begin.tx_gtid)
        offset = stream_offset(position, values.server_id, values.ts_sec)
        if values.offset_extras:
            offset.update(values.offset_extras)
        return offset


class BinlogEventBuilder:
    """Builds records."""

    def __init__(self, settings: MySqlConfig, version: str) -> None:
        self.settings = settings
        self.connector = block.connector_name(is_mariadb=settings.is_mariadb)
        self.source = block.source_block(is_mariadb=settings.is_mariadb)
        self._version = version
        self.partition = source_partition(settings.topic_prefix)
        self.context = tuple(context_headers(settings.topic_prefix, self.connector)) if settings.extended_headers else ()

    def change(
        self,
        rows: MySqlTableRows,
        values: EventValues,
        place: RowPlace,
        op: str,
        before: list[Any] | None,
        after: list[Any] | None,
        key: list[Any] | None,
        offset: Mapping[str, Any],
        header: Header | None = None,
    ) -> SourceRecord:
        """Builds a change event; ``header`` comes before Debezium's context headers."""
        schemas = rows.schemas
        headers = self.context if header is None else (header, *self.context)
        envelope = [
            None if before is None else Struct(schemas.value, before),
            None if after is None else Struct(schemas.value, after),
            self.source_struct(rows.table.database, rows.table.name, values, place.pos, place.row),
            None,
            op,
            values.now_ms,
            values.now_us,
            values.now_ns,
        ]
        has_key = key is not None and schemas.key is not None
        return SourceRecord(
            self.partition,
            offset,
            rows.topic,
            None,
            schemas.key if has_key else None,
            Struct(schemas.key, key) if has_key and schemas.key is not None and key is not None else None,
            schemas.envelope,
            Struct(schemas.envelope, envelope),
            None,
            Headers(headers) if headers else None,
        )

    def tombstone(self, deleted: SourceRecord, offset: Mapping[str, Any]) -> SourceRecord:
        """Builds the tombstone of a delete."""
        return tombstone_of(deleted, offset)

    def source_constants(self, database: str, table: str | None) -> list[Any]:
        """The values of a table's source blocks, without those that differ between events."""
        return block.source_values(self._version, self.connector, self.settings.topic_prefix, database, table)

    def source_struct(self, database: str, table: str | None, values: EventValues, pos: int, row: int) -> Struct:
        """Builds a source block."""
        source = self.source_constants(database, table)
        source[block.TS_MS], source[block.TS_US], source[block.TS_NS] = values[:3]
        source[block.SERVER_ID], source[block.GTID], source[block.FILE] = values.server_id, values.gtid, values.file
        source[block.POS], source[block.ROW] = pos, row
        source[block.THREAD], source[block.QUERY] = values.thread, values.query
        return Struct(self.source, source)


def now_values() -> tuple[int, int, int]:
    """Returns the time of processing in ms, us, and ns."""
    ns = time.time_ns()
    return ns // 1_000_000, ns // 1000, ns
