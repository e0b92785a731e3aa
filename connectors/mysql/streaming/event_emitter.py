"""Converts events of the binary log to change events.

A :class:`BinlogEventEmitter` is for one connection: it begins at a position, follows it, and appends records to ``out``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from connect.data.struct import Struct
from connect.errors import DataError
from connect.record import SourceRecord
from connect.text_records import MixedTextRecords
from connectors.cdc.schema.errant_rows import SKIP_LEVELS
from connectors.cdc.streaming.transaction_metadata import TransactionMetadata
from connectors.mysql.binlog import (
    BinlogDecoder,
    Event,
    Gtid,
    Incident,
    LoadedData,
    MariaDbGtidEvent,
    OtherEvent,
    Query,
    RowsEvent,
    RowsQuery,
    TableMapEvent,
    TransactionPayload,
)
from connectors.mysql.binlog.events import EventHeader
from connectors.mysql.offsets import BinlogPosition, Gtids, is_statement_at
from connectors.mysql.position_tracker import BinlogPositionTracker
from connectors.mysql.schema.captured_tables import MySqlCapturedTables
from connectors.mysql.schema.ddl import DatabaseChange, DdlKind
from connectors.mysql.schema.model import TableId
from connectors.mysql.streaming.change_events import BinlogEventBuilder, EventValues, RowPlace
from connectors.mysql.streaming.emission import Emission, StreamedTransaction
from connectors.mysql.streaming.observers import BinlogMark, BinlogObservers
from connectors.mysql.streaming.row_emitter import RowEmitter
from connectors.mysql.streaming.statements import StatementKind, changed_table, is_generated, statement_kind
from connectors.mysql.streaming.structure_changes import StructureChanges, explain_lost_rows

log = logging.getLogger(__name__)


class BinlogEventEmitter:
    """Converts events to records, in order. What was emitted before a restart is not emitted again."""

    def __init__(
        self,
        start: BinlogPosition,
        gtids: Gtids | None,
        decoder: BinlogDecoder,
        builder: BinlogEventBuilder,
        tables: MySqlCapturedTables,
        structures: StructureChanges,
        observers: BinlogObservers,
        metadata: TransactionMetadata | None,
    ) -> None:
        """``gtids`` are the transactions that are completed; None if positions have no GTIDs."""
        self._tracker = BinlogPositionTracker(start, gtids)
        self._emission = Emission(self._tracker, builder, observers, metadata)
        self._rows = RowEmitter(self._emission, tables, structures)
        self._decoder = decoder
        self._builder = builder
        self._settings = builder.settings
        self._tables = tables
        self._structures = structures
        self._observers = observers
        self._metadata = metadata
        self.event_time_s: int | None = None
        """The timestamp of the last event that was read; None if there was none."""

    @property
    def out(self) -> MixedTextRecords:
        """The records that were emitted."""
        return self._emission.out

    @property
    def events(self) -> int:
        """The number of changes that were emitted."""
        return self._emission.events

    # --- position -----------------------------------------------------------------------------------------------------------

    @property
    def position(self) -> BinlogPosition:
        """The position to continue from: behind the last emitted change."""
        return self._tracker.position

    @property
    def is_in_transaction(self) -> bool:
        return self._tracker.is_in_transaction

    @property
    def tracker(self) -> BinlogPositionTracker:
        """Follows the position, also inside transactions. Not to be changed."""
        return self._tracker

    def has_reached(self, mark: BinlogMark) -> bool:
        """Whether everything before a position of the server's log was read. False inside a transaction."""
        reached = self._tracker.reached
        return reached is not None and mark.is_at_or_before(reached)

    def reach_mark(self) -> None:
        """Emits what waits for the position (:attr:`BinlogObservers.mark`), unless it is inside a transaction."""
        observers = self._observers
        if observers.awaits_mark and self.has_reached(observers.mark):
            for record in observers.reach_mark(self._emission.offset(self._tracker.position)):
                self._emission.append(record)
            self._emission.reset_values()  # offsets have changed

    def position_offset(self) -> Mapping[str, Any]:
        """The offset of the position."""
        return self._emission.position_offset()

    def take_records(self) -> MixedTextRecords:
        """Returns the records that were emitted and removes them."""
        return self._emission.take_records()

    # --- events -------------------------------------------------------------------------------------------------------------

    def on_event(self, data: bytes) -> None:
        """Handles the bytes of an event. Raises DataError for one that cannot be read, and what the schema history raises.

        After an error, the position is in front of the event.
        """
        self._handle(self._decoder.decode(data))

    def _handle(self, event: Event) -> None:
        if isinstance(event, RowsEvent):
            self.event_time_s = event.header.timestamp
            self._rows.on_rows(event)
            return
        tracker = self._tracker
        if isinstance(event, TableMapEvent):
            self.event_time_s = event.header.timestamp
            tracker.track(event)
            return
        if isinstance(event, TransactionPayload):
            tracker.track(event)
            for inner in self._decoder.payload_events(event):
                self._handle(inner)
            return
        if event.header.timestamp:
            self.event_time_s = event.header.timestamp
        was_in_transaction = tracker.is_in_transaction
        # The text of a statement concerns all of its rows, of which some may not be completed.
        if not tracker.is_completed or isinstance(event, RowsQuery):
            self._on_other(event)
        tracker.track(event)
        if was_in_transaction is not tracker.is_in_transaction:
            self._emission.reset_values()
            if was_in_transaction:
                self._end_transaction()
            else:
                self._begin_transaction(event.header)
        self.reach_mark()

    def _on_other(self, event: Event) -> None:
        """Handles an event that is no rows, before the position moves behind it."""
        match event:
            case Gtid() | MariaDbGtidEvent():
                self._start_transaction(event)
            case Query():
                self._on_query(event)
            case RowsQuery():
                if self._settings.binlog.includes_query:
                    self._emission.transaction.query = event.sql.decode("utf-8", "replace")
                    self._emission.reset_values()
            case Incident():
                self._lose(f"the server reports that its binary log lacks changes: {event.message or event.number}", event.header)
            case LoadedData() if self._emission.transaction.is_read:
                self._lose("LOAD DATA is logged as a statement", event.header)
            case OtherEvent() if not event.is_known and not event.header.is_ignorable:
                raise DataError(
                    f"binary log {self._tracker.file} has an event of unknown type {event.header.type_code} at position "
                    f"{event.header.position}: the server is newer than this connector"
                )

    # --- transactions -------------------------------------------------------------------------------------------------------

    def _start_transaction(self, event: Gtid | MariaDbGtidEvent) -> None:
        binlog = self._settings.binlog
        transaction = self._emission.transaction = StreamedTransaction(event.header.server_id, event.header.timestamp)
        if isinstance(event, Gtid):
            transaction.commit_us = event.original_commit_us or None
            source = event.uuid
        else:
            transaction.is_standalone = event.is_standalone
            transaction.thread = event.thread_id
            source = f"{event.gtid.domain}-{event.gtid.server_id}"
        transaction.is_read = not (binlog.filters_sources and binlog.filters_dml and source) or binlog.reads_source(source)
        self._emission.reset_values()

    def _begin_transaction(self, header: EventHeader) -> None:
        transaction = self._emission.transaction
        if not transaction.server_id:  # without GTIDs, BEGIN comes first
            transaction.server_id = header.server_id
        transaction.ts_sec = header.timestamp
        position = self._tracker.position
        transaction.name = self._tracker.gtid or f"file={position.file},pos={position.position}"
        if self._metadata is not None and not transaction.is_standalone and transaction.is_read:
            offset = self._emission.full_offset(position)
            record = self._metadata.begin(transaction.name, transaction.name, self._transaction_ms(), offset)
            self._emission.append(record)

    def _end_transaction(self) -> None:
        transaction = self._emission.transaction
        if self._metadata is not None and not transaction.is_standalone:
            record = self._metadata.end(transaction.name, self._transaction_ms(), self.position_offset())
            self._emission.append(record)
        self._emission.transaction = StreamedTransaction(transaction.server_id, transaction.ts_sec)

    def _transaction_ms(self) -> int:
        transaction = self._emission.transaction
        return (transaction.ts_sec or 0) * 1000 if transaction.commit_us is None else transaction.commit_us // 1000

    # --- statements -----------------------------------------------------------------------------------------------------------

    def _on_query(self, query: Query) -> None:
        sql = self._structures.text_of(query)
        match statement_kind(query, sql):
            case StatementKind.BEGIN:
                self._emission.transaction.thread = query.thread_id
            case StatementKind.ROWS:
                self._on_row_statement(query, sql)
            case StatementKind.XA_ROLLBACK:
                # The log has the rows in front of XA PREPARE, and nothing that undoes them. Debezium emits them there, too.
                log.warning(
                    "a prepared XA transaction was rolled back in %s at position %d (%s): the changes that it made in captured "
                    "tables have been emitted. Read these tables again with an incremental snapshot",
                    self._tracker.file, query.header.position, sql,
                )  # fmt: skip
            case StatementKind.OTHER:
                self._on_ddl(query, sql)

    def _on_row_statement(self, query: Query, sql: str) -> None:
        if is_generated(sql) or not self._emission.transaction.is_read:
            return
        table = changed_table(query, sql)
        if table is None or self._tables.captures(table):
            self._lose(f"a change of {table or 'rows'} is logged as a statement", query.header)

    def _lose(self, what: str, header: EventHeader) -> None:
        """Fails because the log does not have rows, unless ``event.processing.failure.handling.mode`` passes such events."""
        mode = self._settings.events.failure_mode
        error = explain_lost_rows(f"{what}, in {self._tracker.file} at position {header.position}")
        if mode not in SKIP_LEVELS:
            raise error
        log.log(SKIP_LEVELS[mode], "%s; skipping it (event.processing.failure.handling.mode=%s)", error.message, mode)

    def _on_ddl(self, query: Query, sql: str) -> None:
        before, after = self._tracker.position, self._tracker.copy()
        after.track(query)
        structures = self._structures.structures
        recovered, structures.last_recovered = structures.last_recovered, None
        if recovered is not None and is_statement_at(recovered, before, after.position, query.header.server_id):
            log.info("passing a statement that the schema history of Debezium has already: %s", sql)
            return
        changes = self._structures.changes_of(query, sql)
        if not changes:
            return
        values, pos = self._emission.values(query.header), after.event_position
        offset = self._emission.full_offset(after.position)

        def source(database: str, table: str | None) -> Struct:
            return self._builder.source_struct(database, table, values, pos, 0)

        records = self._structures.record(changes, query, sql, offset, source)
        for change in changes:
            if not isinstance(change, DatabaseChange) and change.kind is DdlKind.TRUNCATE:
                records += self._truncated(change.id, values, pos, offset)
        # The statement is completed with its last record.
        for record in records[:-1]:
            record.source_offset = self._emission.full_offset(before)
        for record in records:
            self._emission.append(record)
        self._emission.reset_values()
        self._rows.unbind(changes)

    def _truncated(self, id: TableId, values: EventValues, pos: int, offset: Mapping[str, Any]) -> list[SourceRecord]:
        if not self._tables.captures(id) or not self._emission.transaction.is_read:
            return []
        self._observers.truncate(id)
        table = self._structures.structures.tables.get(id)
        if "t" in self._settings.skipped or table is None:
            return []
        rows = self._tables.rows_of(table)
        self._emission.events += 1
        place = RowPlace(0, pos, self._tracker.position)
        return [self._builder.change(rows, values, place, "t", None, None, None, offset)]
