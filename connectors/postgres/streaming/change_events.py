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
from connectors.postgres.config import PostgresConfig
from connectors.postgres.schema import source_block as block
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.streaming.pgoutput import Begin
from connectors.postgres.streaming.position_tracker import PositionTracker


class TransactionValues(NamedTuple):
    """What changes of a transaction share: values of their events, and of their offsets."""

    sequence: str
    """The beginning of the source block's sequence."""
    commit_ms: int
    commit_us: int
    commit_ns: int
    tx_id: int | None
    xmin: int | None
    origin: str | None
    origin_lsn: int | None
    now_ms: int
    now_us: int
    now_ns: int
    done_lsn: int
    tx_lsn: int
    offset_extras: Mapping[str, Any]
    """More members of offsets."""


class StreamedTable:
    """A captured table in the stream, with the source block of the current transaction.

    ``sends_key``: updates and deletes contain the old record key if it changed.
    """

    __slots__ = ("base", "rows", "sends_key", "templates", "transaction")

    def __init__(self, rows: TableRows, sends_key: bool) -> None:
        self.rows = rows
        self.sends_key = sends_key
        self.base: list[Any] = []
        self.transaction: TransactionValues | None = None
        self.templates: dict[int, Any] = {}
        """Templates of changes that become records only when somebody looks at them, by kind of message."""

    def set_rows(self, rows: TableRows) -> None:
        """Sets a new version of the table."""
        self.rows = rows
        self.templates.clear()


class ChangeEventBuilder:
    """Builds records. ``start_transaction`` sets what all changes of a transaction share."""

    def __init__(self, settings: PostgresConfig, version: str) -> None:
        self.settings = settings
        self._version = version
        self.partition = source_partition(settings.topic_prefix)
        self.context = tuple(context_headers(settings.topic_prefix, block.CONNECTOR)) if settings.extended_headers else ()
        self._begin = Begin(0, 0, 0)
        self._done_lsn = 0
        self._commit_lsn = 0
        self._commit_members: Mapping[str, Any] = {}
        self._origin: tuple[str | None, int | None] = (None, None)
        self.xmin: int | None = None

    def start_transaction(self, begin: Begin, position: PositionTracker) -> None:
        """Starts the transaction that comes after a position."""
        self._begin = begin
        self._done_lsn = position.done_lsn
        self._commit_lsn = position.commit_lsn
        self._commit_members = position.commit_members()
        self._origin = None, None

    def set_origin(self, name: str, lsn: int) -> None:
        """Sets the origin of the transaction."""
        self._origin = name, lsn

    def transaction_values(self, offset_extras: Mapping[str, Any]) -> TransactionValues:
        """What the next changes of the transaction share, with these members of offsets."""
        begin, ns = self._begin, time.time_ns()
        extras = offset_extras
        if self.xmin is not None or self._commit_members:
            xmin = {} if self.xmin is None else {"xmin": self.xmin}
            extras = {**self._commit_members, **xmin, **offset_extras}
        us = ns // 1000
        sequence = f'["{self._commit_lsn}","' if self._commit_lsn else '[null,"'
        return TransactionValues(
            sequence, begin.commit_us // 1000, begin.commit_us, begin.commit_us * 1000, begin.xid, self.xmin, *self._origin,
            us // 1000, us, ns, self._done_lsn, begin.final_lsn, extras,
        )  # fmt: skip

    def change(
        self,
        table: StreamedTable,
        transaction: TransactionValues,
        offset: Mapping[str, Any],
        op: str,
        before: list[Any] | None,
        after: list[Any] | None,
        key: list[Any] | None,
        header: Header | None = None,
    ) -> SourceRecord:
        """Builds a change event; ``header`` comes before Debezium's context headers."""
        schemas = table.rows.schemas
        if table.transaction is not transaction:
            table.base = self._source_base(table.rows, transaction)
            table.transaction = transaction
        source = table.base.copy()
        lsn = offset["lsn"]
        source[block.SEQUENCE] = f'{transaction.sequence}{lsn}"]'
        source[block.LSN] = lsn
        value = schemas.value
        envelope = schemas.envelope
        key_schema = schemas.key
        headers = self.context if header is None else (header, *self.context)
        return SourceRecord(
            self.partition,
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
                    Struct(block.SOURCE, source),
                    None,
                    op,
                    transaction.now_ms,
                    transaction.now_us,
                    transaction.now_ns,
                ],
            ),
            None,
            Headers(headers) if headers else None,
        )

    def tombstone(self, deleted: SourceRecord, offset: Mapping[str, Any]) -> SourceRecord:
        """Builds the tombstone of a delete."""
        return tombstone_of(deleted, offset)

    def source_constants(self, rows: TableRows) -> list[Any]:
        """The values of a table's source blocks, without those that differ between events."""
        settings, table = self.settings, rows.table
        return block.source_values(self._version, settings.topic_prefix, settings.address.database, table.schema, table.name)

    def _source_base(self, rows: TableRows, transaction: TransactionValues) -> list[Any]:
        base = self.source_constants(rows)
        base[block.TS_MS], base[block.TS_US], base[block.TS_NS] = transaction[1:4]
        base[block.TX_ID], base[block.XMIN], base[block.ORIGIN], base[block.ORIGIN_LSN] = transaction[4:8]
        return base
