"""Builds the records of change events: envelopes with their source block, tombstones, and headers."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping
from typing import Any

from connect.data.headers import Header, Headers
from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.record import SourceRecord
from connectors.postgres.config import PostgresConfig
from connectors.postgres.offsets import source_partition
from connectors.postgres.schema import envelope as env
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.streaming.pgoutput import Begin

_CONTEXT = "__debezium.context."


class StreamedTable:
    """A captured table in the stream, with the source block of the current transaction.

    ``sends_key``: updates and deletes contain the old record key if it changed.
    """

    __slots__ = ("base", "rows", "sends_key", "transaction")

    def __init__(self, rows: TableRows, sends_key: bool) -> None:
        self.rows = rows
        self.sends_key = sends_key
        self.base: list[Any] = []
        self.transaction = -1


class ChangeEventBuilder:
    """Builds records. ``start_transaction`` sets what all changes of a transaction share."""

    def __init__(self, settings: PostgresConfig, version: str) -> None:
        self._settings = settings
        self._version = version
        self._partition = source_partition(settings.topic_prefix)
        self._context = context_headers(settings.topic_prefix) if settings.extended_headers else []
        self._number = 0
        self._begin = Begin(0, 0, 0)
        self._sequence_start = "[null,"
        self._origin: tuple[str, int] | None = None
        self.xmin: int | None = None

    def start_transaction(self, begin: Begin, done_lsn: int) -> None:
        """Starts a transaction; ``done_lsn`` is the end of the one before, 0 if that is unknown."""
        self._number += 1
        self._begin = begin
        self._sequence_start = f'["{done_lsn}",' if done_lsn else "[null,"
        self._origin = None

    def set_origin(self, name: str, lsn: int) -> None:
        """Sets the origin of the transaction."""
        self._origin = (name, lsn)

    def change(
        self,
        table: StreamedTable,
        offset: Mapping[str, Any],
        op: str,
        before: list[Any] | None,
        after: list[Any] | None,
        key: list[Any] | None,
        header: Header | None = None,
    ) -> SourceRecord:
        """Builds a change event; ``header`` comes before Debezium's context headers."""
        schemas = table.rows.schemas
        if table.transaction != self._number:
            table.base = self._source_base(table.rows)
            table.transaction = self._number
        source = table.base.copy()
        lsn = offset["lsn"]
        source[6] = f'{self._sequence_start}"{lsn}"]'  # env.SEQUENCE; a global costs as much as the assignment
        source[12] = lsn  # env.LSN
        ns = time.time_ns()
        us = ns // 1000
        value = schemas.value
        envelope = schemas.envelope
        key_schema = schemas.key
        headers = self._context if header is None else [header, *self._context]
        return SourceRecord(
            self._partition,
            offset,
            table.rows.topic,
            None,
            None if key is None else key_schema,
            None if key is None or key_schema is None else Struct(key_schema, key),
            envelope,
            Struct(
                envelope,
                [
                    None if before is None else Struct(value, before),
                    None if after is None else Struct(value, after),
                    Struct(env.SOURCE, source),
                    None,
                    op,
                    us // 1000,
                    us,
                    ns,
                ],
            ),
            None,
            Headers(headers) if headers else None,
        )

    def tombstone(self, deleted: SourceRecord, offset: Mapping[str, Any]) -> SourceRecord:
        """Builds the tombstone of a delete; it has the delete's headers, as in Debezium."""
        headers = None if deleted.headers is None else deleted.headers.copy()
        return SourceRecord(
            self._partition, offset, deleted.topic, None, deleted.key_schema, deleted.key, None, None, None, headers
        )

    def _source_base(self, rows: TableRows) -> list[Any]:
        settings, table, begin = self._settings, rows.table, self._begin
        base = env.source_values(self._version, settings.topic_prefix, settings.address.database, table.schema, table.name)
        base[env.TS_MS], base[env.TS_US], base[env.TS_NS] = begin.commit_us // 1000, begin.commit_us, begin.commit_us * 1000
        base[env.TX_ID] = begin.xid
        base[env.XMIN] = self.xmin
        if self._origin is not None:
            base[env.ORIGIN], base[env.ORIGIN_LSN] = self._origin
        return base


def context_headers(topic_prefix: str) -> list[Header]:
    """Debezium's headers of streamed events (``extended.headers.enabled``); the run ID is new for each start of the task."""
    values = {
        "connectorLogicalName": topic_prefix,
        "taskId": "0",
        "connectorName": env.CONNECTOR,
        "runId": str(_time_ordered_uuid()),
    }
    return [Header(_CONTEXT + name, Schema.STRING, value) for name, value in values.items()]


def _time_ordered_uuid() -> uuid.UUID:
    """A UUID of version 7 (RFC 9562), as Debezium creates."""
    ms = time.time_ns() // 1_000_000
    bits = ms << 80 | int.from_bytes(os.urandom(10), "big")
    return uuid.UUID(int=bits & ~(0xF << 76) & ~(0x3 << 62) | 7 << 76 | 2 << 62)
