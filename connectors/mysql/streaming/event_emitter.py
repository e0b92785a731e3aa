"""Converts events of the binary log to change events.

A :class:`BinlogEventEmitter` is for one connection: it begins at a position, follows it, and appends records to ``out``.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from connect.data.headers import Header
from connect.data.struct import Struct
from connect.errors import ConnectError, DataError
from connect.record import SourceRecord
from connect.text_records import MixedTextRecords
from connectors.cdc.schema.contracts import ContractError
from connectors.cdc.schema.errant_rows import SKIP_LEVELS, errant_record
from connectors.cdc.streaming.transaction_metadata import TransactionMetadata
from connectors.mysql.binlog import (
    BinlogDecoder,
    Event,
    Gtid,
    HeartbeatEvent,
    Incident,
    LoadedData,
    MariaDbGtidEvent,
    OtherEvent,
    Query,
    RowsEvent,
    RowsKind,
    RowsQuery,
    TableMap,
    TransactionPayload,
)
from connectors.mysql.binlog.events import EventHeader
from connectors.mysql.offsets import BinlogPosition, Gtids, stream_offset
from connectors.mysql.position_tracker import BinlogPositionTracker
from connectors.mysql.schema.captured_tables import MySqlCapturedTables
from connectors.mysql.schema.ddl import Change, DatabaseChange, DdlKind
from connectors.mysql.schema.model import TableId
from connectors.mysql.schema.tables import changed_tables
from connectors.mysql.streaming.change_events import BinlogEventBuilder, EventValues, RowPlace, now_values
from connectors.mysql.streaming.change_templates import KINDS
from connectors.mysql.streaming.observers import BinlogObservers, RowChange
from connectors.mysql.streaming.statements import StatementKind, changed_table, is_generated, statement_kind
from connectors.mysql.streaming.streamed_table import Row, StreamedMySqlTable
from connectors.mysql.streaming.structure_changes import StructureChanges, explain_lost_rows

log = logging.getLogger(__name__)

_TRANSACTION_AT = 3
"""The position of the transaction block in an envelope."""


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
        self._decoder = decoder
        self._builder = builder
        self._settings = settings = builder.settings
        self._tables = tables
        self._structures = structures
        self._observers = observers
        self._metadata = metadata
        self._skipped = {kind for kind, change in KINDS.items() if change.op in settings.skipped}
        self._bound: dict[TableMap, StreamedMySqlTable | None] = {}
        self._transaction = _Transaction()
        self._values: EventValues | None = None
        self.out = MixedTextRecords(builder.partition)
        self.events = 0
        self.event_time_s: int | None = None
        """The timestamp of the last event that was read; None if there was none."""

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

    def reach_mark(self, sent: HeartbeatEvent | None = None) -> None:
        """Emits what waits for the position (:attr:`BinlogObservers.mark`), unless it is inside a transaction.

        ``sent`` says that the server has sent everything before a place in its log, which may be further than the position.
        """
        tracker, observers = self._tracker, self._observers
        if tracker.is_in_transaction or not observers.awaits_mark:
            return
        position = tracker.position
        reached = position if sent is None else replace(position, file=sent.file, position=sent.position)
        if observers.is_mark_reached(position) or observers.is_mark_reached(reached):
            for record in observers.reach_mark(self._offset(position)):
                self.out.append(record)
            self._values = None  # offsets have changed

    def position_offset(self) -> dict[str, Any]:
        """The offset of the position."""
        return self._offset(self._tracker.position) | dict(self._observers.offset_extras)

    def _offset(self, position: BinlogPosition) -> dict[str, Any]:
        transaction = self._transaction
        members = self._metadata.members() if self._metadata is not None and position.is_in_transaction else None
        return stream_offset(position, transaction.server_id, transaction.ts_sec, members)

    def take_records(self) -> MixedTextRecords:
        """Returns the records that were emitted and removes them."""
        batch, self.out = self.out, MixedTextRecords(self._builder.partition)
        self._values = None  # the next events have another time
        return batch

    # --- events -------------------------------------------------------------------------------------------------------------

    def on_event(self, data: bytes) -> None:
        """Handles the bytes of an event. Raises DataError for one that cannot be read, and what the schema history raises.

        After an error, the position is in front of the event.
        """
        self._handle(self._decoder.decode(data))

    def _handle(self, event: Event) -> None:
        if isinstance(event, RowsEvent):
            self._on_rows(event)
            return
        tracker = self._tracker
        if isinstance(event, TransactionPayload):
            tracker.track(event)
            for inner in self._decoder.payload_events(event):
                self._handle(inner)
            return
        if event.header.timestamp:
            self.event_time_s = event.header.timestamp
        was_in_transaction = tracker.is_in_transaction
        if not tracker.is_completed:
            self._on_other(event)
        tracker.track(event)
        if was_in_transaction is not tracker.is_in_transaction:
            self._values = None
            if was_in_transaction:
                self._end_transaction()
            else:
                self._begin_transaction(event.header)
        self.reach_mark(event if isinstance(event, HeartbeatEvent) else None)

    def _on_other(self, event: Event) -> None:
        """Handles an event that is no rows, before the position moves behind it."""
        match event:
            case Gtid() | MariaDbGtidEvent():
                self._start_transaction(event)
            case Query():
                self._on_query(event)
            case RowsQuery():
                if self._settings.binlog.includes_query:
                    self._transaction.query = event.sql.decode("utf-8", "replace")
                    self._values = None
            case Incident():
                self._lose(f"the server reports that its binary log lacks changes: {event.message or event.number}", event.header)
            case LoadedData():
                self._lose("LOAD DATA is logged as a statement", event.header)
            case OtherEvent() if not event.is_known and not event.header.is_ignorable:
                raise DataError(
                    f"binary log {self._tracker.file} has an event of unknown type {event.header.type_code} at position "
                    f"{event.header.position}: the server is newer than this connector"
                )

    # --- transactions -------------------------------------------------------------------------------------------------------

    def _start_transaction(self, event: Gtid | MariaDbGtidEvent) -> None:
        binlog = self._settings.binlog
        transaction = self._transaction = _Transaction(event.header.server_id, event.header.timestamp)
        if isinstance(event, Gtid):
            transaction.commit_us = event.original_commit_us or None
            source = event.uuid
        else:
            transaction.is_standalone = event.is_standalone
            transaction.thread = event.thread_id
            source = f"{event.gtid.domain}-{event.gtid.server_id}"
        transaction.is_read = not (binlog.filters_sources and binlog.filters_dml and source) or binlog.reads_source(source)
        self._values = None

    def _begin_transaction(self, header: EventHeader) -> None:
        transaction = self._transaction
        if not transaction.server_id:  # without GTIDs, BEGIN comes first
            transaction.server_id = header.server_id
        transaction.ts_sec = header.timestamp
        position = self._tracker.position
        transaction.name = self._tracker.gtid or f"file={position.file},pos={position.position}"
        if self._metadata is not None and not transaction.is_standalone and transaction.is_read:
            offset = self._offset(position) | dict(self._observers.offset_extras)
            record = self._metadata.begin(transaction.name, transaction.name, self._transaction_ms(), offset)
            if record is not None:
                self.out.append(record)

    def _end_transaction(self) -> None:
        transaction = self._transaction
        if self._metadata is not None and not transaction.is_standalone:
            record = self._metadata.end(transaction.name, self._transaction_ms(), self.position_offset())
            if record is not None:
                self.out.append(record)
        self._transaction = _Transaction(transaction.server_id, transaction.ts_sec)

    def _transaction_ms(self) -> int:
        transaction = self._transaction
        return (transaction.ts_sec or 0) * 1000 if transaction.commit_us is None else transaction.commit_us // 1000

    def _event_values(self, header: EventHeader) -> EventValues:
        """What the changes of an event share with others, as far as they are in the current batch."""
        values = self._values
        if values is not None and values.ts_sec == header.timestamp:
            return values
        transaction = self._transaction
        transaction.server_id, transaction.ts_sec = header.server_id, header.timestamp
        us = header.timestamp * 1_000_000 if transaction.commit_us is None else transaction.commit_us
        self._values = values = EventValues(
            us // 1000,
            us,
            us * 1000,
            header.server_id,
            self._tracker.gtid,
            self._tracker.file,
            transaction.thread,
            transaction.query,
            *now_values(),
            header.timestamp,
            self._observers.offset_extras,
        )
        return values

    # --- statements -----------------------------------------------------------------------------------------------------------

    def _on_query(self, query: Query) -> None:
        sql = self._structures.text_of(query)
        match statement_kind(query, sql):
            case StatementKind.BEGIN:
                self._transaction.thread = query.thread_id
            case StatementKind.ROWS:
                self._on_row_statement(query, sql)
            case StatementKind.OTHER:
                self._on_ddl(query, sql)

    def _on_row_statement(self, query: Query, sql: str) -> None:
        if is_generated(sql):
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
        changes = self._structures.changes_of(query, sql)
        if not changes:
            return
        before, after = self._tracker.position, copy.deepcopy(self._tracker)
        after.track(query)
        values, pos = self._event_values(query.header), after.event_position
        offset = self._offset(after.position) | dict(self._observers.offset_extras)

        def source(database: str, table: str | None) -> Struct:
            return self._builder.source_struct(database, table, values, pos, 0)

        records = self._structures.record(changes, query, sql, offset, source)
        for change in changes:
            if not isinstance(change, DatabaseChange) and change.kind is DdlKind.TRUNCATE:
                records += self._truncated(change.id, values, pos, offset)
        # The statement is completed with its last record.
        for record in records[:-1]:
            record.source_offset = self._offset(before) | dict(self._observers.offset_extras)
        for record in records:
            self.out.append(record)
        self._values = None
        self._unbind(changes)

    def _truncated(self, id: TableId, values: EventValues, pos: int, offset: Mapping[str, Any]) -> list[SourceRecord]:
        if not self._tables.captures(id) or not self._transaction.is_read:
            return []
        self._observers.truncate(id)
        table = self._structures.structures.tables.get(id)
        if "t" in self._settings.skipped or table is None:
            return []
        rows = self._tables.rows_of(table)
        self.events += 1
        place = RowPlace(pos, 0, self._tracker.position)
        return [self._builder.change(rows, values, place, "t", None, None, None, offset)]

    def _unbind(self, changes: Sequence[Change]) -> None:
        """Tables that have changed are compared with the log again."""
        changed = set(changed_tables(changes))
        databases = {change.name for change in changes if isinstance(change, DatabaseChange)}
        for table_map in list(self._bound):
            if TableId(table_map.schema, table_map.table) in changed or table_map.schema in databases:
                del self._bound[table_map]

    # --- rows -----------------------------------------------------------------------------------------------------------------

    def _on_rows(self, event: RowsEvent) -> None:
        tracker, header = self._tracker, event.header
        self.event_time_s = header.timestamp
        table_map = event.table
        if tracker.is_completed or not self._transaction.is_read:
            tracker.finish_rows(header)
            return
        if table_map is None:
            raise DataError(
                f"rows in {tracker.file} at position {header.position} belong to a table that the log does not describe"
            )
        bound = self._bound[table_map] if table_map in self._bound else self._bind(table_map)
        if bound is None or event.kind in self._skipped:
            tracker.finish_rows(header)
            return
        try:
            bound.rows.judgment.raise_error()
            rows = bound.decoder.rows(event)
        except (DataError, ContractError) as e:
            self._emit_singly(event, bound, e)
            return
        first = tracker.skipped_rows(len(rows)) if tracker.is_replaying else 0
        is_plain = self._metadata is None and bound.rows.id not in self._observers.watched and not bound.needs_completion(event)
        is_update = event.kind is RowsKind.UPDATE
        if is_plain and is_update:
            is_plain = not self._settings.skip_unchanged and not bound.moves_key(rows)
        try:
            changes = [] if is_plain else self._completed(event, bound, rows)
        except DataError as e:
            self._emit_singly(event, bound, e)
            return
        # Nothing fails from here on: the event is completed.
        begin = tracker.position_in_rows(0)
        tracker.finish_rows(header)
        if not is_plain:
            self._emit_changes(event, bound, changes, first, begin)
            return
        values, pos = self._event_values(header), tracker.event_position
        found: list[Sequence[Any]]
        if is_update:
            found = [(*before, *after, pos, n, begin, values) for n, (before, after) in enumerate(rows)]
        else:
            found = [(*row, pos, n, begin, values) for n, row in enumerate(rows)]
        if first:
            del found[:first]
        self.events += len(found)
        self.out.add_rows(bound.template(event.kind), found)

    def _bind(self, table_map: TableMap) -> StreamedMySqlTable | None:
        """Finds the version of a table that the log describes; None if its changes are not emitted."""
        bound = None
        id = TableId(table_map.schema, table_map.table)
        if self._tables.captures(id):
            table = self._structures.table_of(table_map, self.position_offset)
            if table is not None:
                rows = self._tables.rows_of(table)
                if rows.judgment.error is None:
                    self._tables.capture(rows)
                    self._values = None  # that may have changed what offsets contain
                elif not isinstance(rows.judgment.error, ContractError):
                    rows.judgment.raise_error()
                bound = StreamedMySqlTable(rows, table_map, self._builder)
                self._observers.bind(id, rows)
        self._bound[table_map] = bound
        return bound

    def _completed(self, event: RowsEvent, bound: StreamedMySqlTable, rows: Sequence[Any]) -> list[RowChange]:
        """The changes of an event with all their values."""
        if event.kind is RowsKind.INSERT:
            return [RowChange(None, bound.complete(row)) for row in rows]
        if event.kind is RowsKind.DELETE:
            return [RowChange(bound.complete(row), None) for row in rows]
        return [RowChange(bound.complete(before), bound.complete(after, before)) for before, after in rows]

    def _emit_changes(
        self, event: RowsEvent, bound: StreamedMySqlTable, changes: Sequence[RowChange], first: int, begin: BinlogPosition
    ) -> None:
        """Emits changes one by one: those of a signal table, of changed keys, or with transaction metadata."""
        pos = self._tracker.event_position
        watched = bound.rows.id in self._observers.watched
        for n in range(first, len(changes)):
            change = changes[n]
            if watched:
                self._pass_on(bound, change)
            self._emit_change(event, bound, change, RowPlace(pos, n, begin))

    def _pass_on(self, bound: StreamedMySqlTable, change: RowChange) -> None:
        """Passes a change on to the observer of its table, if there is one."""
        if (observer := self._observers.watched.get(bound.rows.id)) is not None:
            observer.on_change(bound.rows, change)
            self._values = None  # it may have changed what offsets contain

    def _emit_change(self, event: RowsEvent, bound: StreamedMySqlTable, change: RowChange, place: RowPlace) -> None:
        before, after = change
        values, rows = self._event_values(event.header), bound.rows
        if before is not None and after is not None:
            if self._settings.skip_unchanged and before == after:
                return
            old_key, new_key = rows.key_of(before), rows.key_of(after)
            if old_key is not None and new_key is not None and old_key != new_key:
                self._emit_moved(bound, place, values, before, after, old_key, new_key)
                return
        self.events += 1
        template = bound.template(event.kind)
        row = (*(before or ()), *(after or ()), *place, values)
        if self._metadata is None:
            self.out.add_row(template, row)
            return
        records = template.reader.create(row)
        self._metadata.add_change(records, str(rows.table), _TRANSACTION_AT)
        for record in records:
            self.out.append(record)

    def _emit_moved(
        self,
        bound: StreamedMySqlTable,
        place: RowPlace,
        values: EventValues,
        before: Row,
        after: Row,
        old_key: list[Any],
        new_key: list[Any],
    ) -> None:
        """A key change affects two rows downstream: delete the old one, create the new one."""
        rows, builder = bound.rows, self._builder
        schema = rows.schemas.key
        assert schema is not None
        repeated, done = place.offset(values, is_last=False), place.offset(values, is_last=True)
        new_header = Header("__debezium.newkey", schema, Struct(schema, new_key))
        old_header = Header("__debezium.oldkey", schema, Struct(schema, old_key))
        deleted = builder.change(rows, values, place, "d", list(before), None, old_key, repeated, new_header)
        created = builder.change(rows, values, place, "c", None, list(after), new_key, done, old_header)
        self._emit_record(bound, deleted, is_last=False)
        if self._settings.tombstones:
            assert deleted.source_offset is not None
            self.out.append(builder.tombstone(deleted, deleted.source_offset))
        self._emit_record(bound, created, is_last=True)

    def _emit_record(self, bound: StreamedMySqlTable, record: SourceRecord, *, is_last: bool) -> None:
        self.events += 1
        if self._metadata is not None:
            self._metadata.add(record, str(bound.rows.table), _TRANSACTION_AT, is_last=is_last)
        self.out.append(record)

    def _emit_singly(self, event: RowsEvent, bound: StreamedMySqlTable, error: ConnectError) -> None:
        """Emits the rows of an event of which one cannot be converted, that one as an errant record.

        Raises the error if the event is damaged.
        """
        try:
            raw_rows = bound.raw_decoder.rows(event)
        except DataError:
            raise error from None
        tracker = self._tracker
        first = tracker.skipped_rows(len(raw_rows)) if tracker.is_replaying else 0
        begin = tracker.position_in_rows(0)
        tracker.finish_rows(event.header)
        pos = tracker.event_position
        contract = bound.rows.judgment.error
        for n in range(first, len(raw_rows)):
            place = RowPlace(pos, n, begin)
            raw: Row = raw_rows[n][1] if event.kind is RowsKind.UPDATE else raw_rows[n]
            try:
                if isinstance(contract, ContractError):
                    raise bound.named(raw, contract) from contract
                if event.kind is RowsKind.UPDATE:
                    rows: list[Any] = [(bound.convert(raw_rows[n][0]), bound.convert(raw))]
                else:
                    rows = [bound.convert(raw)]
                change = self._completed(event, bound, rows)[0]
            except DataError as e:
                self._pass_on(bound, RowChange(None, None))
                self._emit_errant(bound, raw, e, place.offset(self._event_values(event.header), is_last=True))
                continue
            self._pass_on(bound, change)
            self._emit_change(event, bound, change, place)

    def _emit_errant(self, bound: StreamedMySqlTable, raw: Row, error: DataError, offset: Mapping[str, Any]) -> None:
        rows, mode = bound.rows, self._settings.events.failure_mode
        self.out.append(
            errant_record(error, rows.topic, str(rows.table), rows.row_columns, raw, mode, self._builder.partition, offset)
        )


class _Transaction:
    """What is known about the current transaction, or the last one between two."""

    __slots__ = ("commit_us", "is_read", "is_standalone", "name", "query", "server_id", "thread", "ts_sec")

    def __init__(self, server_id: int = 0, ts_sec: int | None = None) -> None:
        self.server_id = server_id
        self.ts_sec = ts_sec
        self.commit_us: int | None = None
        """When it was committed where it began, in microseconds since 1970; None if the log has seconds only."""
        self.thread: int | None = None
        self.query: str | None = None
        self.name = ""
        self.is_read = True
        """Whether its changes are emitted (``gtid.source.*``)."""
        self.is_standalone = False
        """Whether it is a single statement without an end."""
