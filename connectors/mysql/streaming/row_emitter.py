"""Converts rows events of the binary log to change events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from connect.data.headers import Header
from connect.data.struct import Struct
from connect.errors import ConnectError, DataError
from connect.record import SourceRecord
from connectors.cdc.schema.contracts import ContractError
from connectors.cdc.schema.errant_rows import errant_record
from connectors.cdc.schema.row_keys import changes_nothing
from connectors.mysql.binlog import RowsEvent, RowsKind, TableMap
from connectors.mysql.offsets import BinlogPosition
from connectors.mysql.schema.captured_tables import MySqlCapturedTables
from connectors.mysql.schema.ddl import Change, DatabaseChange, changed_tables
from connectors.mysql.schema.model import TableId
from connectors.mysql.streaming.change_events import EventValues, RowPlace
from connectors.mysql.streaming.change_templates import KINDS
from connectors.mysql.streaming.emission import Emission
from connectors.mysql.streaming.observers import RowChange
from connectors.mysql.streaming.streamed_table import Row, StreamedMySqlTable
from connectors.mysql.streaming.structure_changes import StructureChanges

_TRANSACTION_AT: Final = 3
"""The position of the transaction block in an envelope."""
_NO_TABLE: Final = 0xFFFFFF
"""The table of an event that only ends a statement."""


class RowEmitter:
    """Emits the changes of captured tables."""

    def __init__(self, emission: Emission, tables: MySqlCapturedTables, structures: StructureChanges) -> None:
        self._emission = emission
        self._builder = emission.builder
        self._settings = settings = emission.builder.settings
        self._tables = tables
        self._structures = structures
        self._skipped = {kind for kind, change in KINDS.items() if change.op in settings.skipped}
        self._bound: dict[TableMap, StreamedMySqlTable | None] = {}

    def unbind(self, changes: Sequence[Change]) -> None:
        """Tables that have changed are compared with the log again."""
        changed = set(changed_tables(changes))
        databases = {change.name for change in changes if isinstance(change, DatabaseChange)}
        for table_map in list(self._bound):
            if TableId(table_map.schema, table_map.table) in changed or table_map.schema in databases:
                del self._bound[table_map]

    def on_rows(self, event: RowsEvent) -> None:
        tracker, header = self._emission.tracker, event.header
        table_map = event.table
        if tracker.is_completed or not self._emission.transaction.is_read:
            tracker.finish_rows(header)
            return
        if table_map is None:
            if event.table_id == _NO_TABLE:
                tracker.finish_rows(header)
                return
            raise DataError(
                f"rows in {tracker.file} at position {header.position} belong to a table that the log does not describe"
            )
        bound = self._bound[table_map] if table_map in self._bound else self._bind(table_map)
        if bound is None or event.kind in self._skipped:
            tracker.finish_rows(header)
            return
        try:
            bound.rows.judgment.raise_error()
            if self._is_plain(event, bound) and self._emit_rows(event, bound):
                return
            changes = self._completed(event, bound, bound.decoder.rows(event))
        except (DataError, ContractError) as e:
            self._emit_singly(event, bound, e)
            return
        # Nothing fails from here on: the event is completed.
        first = tracker.skipped_rows(len(changes)) if tracker.is_replaying else 0
        begin = tracker.position_in_rows(0)
        tracker.finish_rows(header)
        self._emit_changes(event, bound, changes, first, begin)

    def _is_plain(self, event: RowsEvent, bound: StreamedMySqlTable) -> bool:
        """Whether each row is one change, with the values of the log, that nobody looks at."""
        return (
            self._emission.metadata is None
            and bound.rows.id not in self._emission.observers.watched
            and not bound.needs_completion(event)
            and not (event.kind is RowsKind.UPDATE and self._settings.skip_unchanged)
        )

    def _emit_rows(self, event: RowsEvent, bound: StreamedMySqlTable) -> bool:
        """Emits the changes of an event as they are in the log. Returns False, and emits nothing, if one changes a key."""
        emission, header = self._emission, event.header
        tracker = emission.tracker
        tail = tracker.position_of(header), tracker.position_in_rows(0), emission.values(header)
        rows = bound.cell_decoder.flat_rows(event, tail)
        if event.kind is RowsKind.UPDATE and bound.moves_key(rows):
            return False
        if tracker.is_replaying:
            del rows[: tracker.skipped_rows(len(rows))]
        tracker.finish_rows(header)
        emission.events += len(rows)
        emission.out.add_rows(bound.cell_template(event.kind), rows)
        return True

    def _bind(self, table_map: TableMap) -> StreamedMySqlTable | None:
        """Finds the version of a table that the log describes; None if its changes are not emitted."""
        bound = None
        id = TableId(table_map.schema, table_map.table)
        if self._tables.captures(id):
            table = self._structures.table_of(table_map, self._emission.position_offset)
            if table is not None:
                rows = self._tables.rows_of(table)
                if rows.judgment.error is None:
                    self._tables.capture(rows)
                    self._emission.reset_values()  # that may have changed what offsets contain
                elif not isinstance(rows.judgment.error, ContractError):
                    rows.judgment.raise_error()
                bound = StreamedMySqlTable(rows, table_map, self._builder)
                self._emission.observers.bind(id, rows)
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
        pos = self._emission.tracker.event_position
        watched = bound.rows.id in self._emission.observers.watched
        for n in range(first, len(changes)):
            change = changes[n]
            if watched:
                self._pass_on(bound, change)
            self._emit_change(event, bound, change, RowPlace(n, pos, begin))

    def _pass_on(self, bound: StreamedMySqlTable, change: RowChange) -> None:
        """Passes a change on to the observer of its table, if there is one."""
        if (observer := self._emission.observers.watched.get(bound.rows.id)) is not None:
            observer.on_change(bound.rows, change)
            self._emission.reset_values()  # it may have changed what offsets contain

    def _emit_change(self, event: RowsEvent, bound: StreamedMySqlTable, change: RowChange, place: RowPlace) -> None:
        before, after = change
        values, rows = self._emission.values(event.header), bound.rows
        if before is not None and after is not None:
            if self._settings.skip_unchanged and changes_nothing(before, after, rows.key_of):
                return
            old_key, new_key = rows.key_of(before), rows.key_of(after)
            if old_key is not None and new_key is not None and old_key != new_key:
                self._emit_moved(bound, place, values, before, after, old_key, new_key)
                return
        self._emission.events += 1
        template = bound.template(event.kind)
        row = (*(before or ()), *(after or ()), *place, values)
        if self._emission.metadata is None:
            self._emission.out.add_row(template, row)
            return
        records = template.reader.create(row)
        self._emission.metadata.add_change(records, str(rows.table), _TRANSACTION_AT)
        for record in records:
            self._emission.append(record)

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
            self._emission.append(builder.tombstone(deleted, deleted.source_offset))
        self._emit_record(bound, created, is_last=True)

    def _emit_record(self, bound: StreamedMySqlTable, record: SourceRecord, *, is_last: bool) -> None:
        self._emission.events += 1
        if self._emission.metadata is not None:
            self._emission.metadata.add(record, str(bound.rows.table), _TRANSACTION_AT, is_last=is_last)
        self._emission.append(record)

    def _emit_singly(self, event: RowsEvent, bound: StreamedMySqlTable, error: ConnectError) -> None:
        """Emits the rows of an event of which one cannot be converted, that one as an errant record.

        Raises the error if the event is damaged.
        """
        try:
            raw_rows = bound.raw_decoder.rows(event)
        except DataError:
            raise error from None
        tracker = self._emission.tracker
        first = tracker.skipped_rows(len(raw_rows)) if tracker.is_replaying else 0
        begin = tracker.position_in_rows(0)
        tracker.finish_rows(event.header)
        pos = tracker.event_position
        contract = bound.rows.judgment.error
        for n in range(first, len(raw_rows)):
            place = RowPlace(n, pos, begin)
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
                self._emit_errant(bound, raw, e, place.offset(self._emission.values(event.header), is_last=True))
                continue
            self._pass_on(bound, change)
            self._emit_change(event, bound, change, place)

    def _emit_errant(self, bound: StreamedMySqlTable, raw: Row, error: DataError, offset: Mapping[str, Any]) -> None:
        rows, mode = bound.rows, self._settings.events.failure_mode
        self._emission.append(
            errant_record(error, rows.topic, str(rows.table), rows.row_columns, raw, mode, self._builder.partition, offset)
        )
