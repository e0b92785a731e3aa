"""Converts rows of the change table to change events, and tracks the position."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from connect.text_records import MixedTextRecords
from connectors.cdc.schema.column_type import CONVERSION_ERRORS
from connectors.cdc.schema.contracts import SchemaContracts
from connectors.cdc.schema.filters import Filters
from connectors.cdc.schema.row_keys import changes_nothing
from connectors.cdc.signals.actions import Signal
from connectors.cdc.streaming.offset_extras import OffsetExtras
from connectors.cdc.streaming.record_forms import tombstone_of
from connectors.sqlite.config import SqliteConfig
from connectors.sqlite.offsets import SequencePosition, julian_to_ms
from connectors.sqlite.schema.catalog import TableCapture
from connectors.sqlite.schema.table_rows import SqliteTableRows, judge_table
from connectors.sqlite.streaming.events import (
    CREATED,
    DELETED,
    TOUCHED,
    TRUNCATED,
    UPDATED,
    EventBuilder,
    EventKind,
    EventRow,
    RowTemplates,
    SharedValues,
    event_offset,
    share_values,
)
from connectors.sqlite.streaming.replaced_rows import Entry, ReplacedRows
from connectors.sqlite.triggers.ddl import FIXED_COLUMNS, ChangeOperation

log = logging.getLogger(__name__)

_SIGNAL_COLUMNS: Final = 3
_INSERT, _UPDATE, _DELETE = int(ChangeOperation.INSERT), int(ChangeOperation.UPDATE), int(ChangeOperation.DELETE)
_CANDIDATE, _TOUCH = int(ChangeOperation.CANDIDATE), int(ChangeOperation.TOUCH)
_MARKS: Final = (int(ChangeOperation.LOSS), int(ChangeOperation.NEW_TABLE))


class StreamedSqliteTable:
    """A structure of a captured table in the stream."""

    __slots__ = ("is_captured", "is_signal_table", "replaced", "rows", "templates", "width")

    def __init__(self, rows: SqliteTableRows, builder: EventBuilder, *, is_signal_table: bool) -> None:
        self.rows = rows
        self.templates = RowTemplates(rows, builder)
        self.replaced = ReplacedRows(rows.capture)
        self.width = len(rows.capture.stored)
        self.is_signal_table = is_signal_table
        self.is_captured = False
        """Whether its contract knows it."""


class ChangeEmitter:
    """Converts changes to records, in order. ``on_mark`` is called for marks of tables, ``on_signal`` for rows of the signal
    table."""

    def __init__(
        self,
        settings: SqliteConfig,
        filters: Filters,
        contracts: SchemaContracts,
        builder: EventBuilder,
        extras: OffsetExtras,
        on_mark: Callable[[ChangeOperation, TableCapture], None],
        on_signal: Callable[[Signal], None],
        is_read_later: Callable[[str, int], bool],
    ) -> None:
        """``is_read_later`` says whether a snapshot will read a row of a table, given its rowid, for the first time."""
        self._settings = settings
        self._filters = filters
        self._contracts = contracts
        self._builder = builder
        self._extras = extras
        self._on_mark = on_mark
        self._on_signal = on_signal
        self._is_read_later = is_read_later
        self._captures: Mapping[int, TableCapture] = {}
        self._tables: dict[int, StreamedSqliteTable | None] = {}
        self._shared: SharedValues | None = None
        self.position = SequencePosition(0, 0)
        self.events = 0
        self.out = MixedTextRecords(builder.partition)

    def set_captures(self, captures: Mapping[int, TableCapture]) -> None:
        """Sets the structures of tables by number. A number never gets another structure."""
        self._captures = captures

    def table(self, table_id: int) -> StreamedSqliteTable | None:
        """A structure by its number; None if its table is not captured."""
        if table_id not in self._tables:
            self._tables[table_id] = self._bind(table_id)
        return self._tables[table_id]

    def _bind(self, table_id: int) -> StreamedSqliteTable | None:
        capture = self._captures.get(table_id)
        if capture is None or not self._filters.captures_table(capture.table.schema, capture.table.name):
            return None
        judgment = judge_table(self._contracts, capture.table, self._filters)
        rows = SqliteTableRows(capture, self._settings, self._filters, judgment)
        is_signal_table = self._filters.is_signal_table(capture.table.schema, capture.table.name)
        return StreamedSqliteTable(rows, self._builder, is_signal_table=is_signal_table)

    def forget_candidates(self) -> None:
        """Prepares for reading from an earlier position."""
        for table in self._tables.values():
            if table is not None:
                table.replaced = ReplacedRows(table.rows.capture)

    def remember(self, entries: Sequence[Entry]) -> None:
        """Reads changes before the position, which are emitted, for candidates that belong to changes after it."""
        for entry in entries:
            if entry[1] is not None and (table := self.table(entry[1])) is not None:
                self._track(table, entry)
                if entry[2] in (_INSERT, _UPDATE):
                    table.replaced.take(entry)

    def _track(self, table: StreamedSqliteTable, entry: Entry) -> None:
        operation = entry[2]
        if operation == _CANDIDATE:
            table.replaced.add(entry)
        elif operation == _UPDATE:
            table.replaced.forget(entry)
            table.replaced.forget(entry, table.width)
        elif operation == _DELETE:
            table.replaced.forget(entry)

    def process(self, entries: Sequence[Entry]) -> None:
        """Appends the records of changes to ``out``. Raises what a mark or a contract raises; the position is before it then."""
        self._shared = None  # the next events have another time
        for entry in entries:
            sequence, table_id, operation, at = entry[:4]
            position = SequencePosition(sequence, julian_to_ms(at))
            table = None if table_id is None else self.table(table_id)
            if table is not None:
                if operation in _MARKS:
                    self._mark(table, ChangeOperation(operation), position)
                elif operation == _CANDIDATE:
                    table.replaced.add(entry)
                else:
                    self._change(table, operation, entry, position)
            self.position = position

    def _mark(self, table: StreamedSqliteTable, operation: ChangeOperation, position: SequencePosition) -> None:
        if table.is_signal_table:
            return  # snapshots leave it out, because old signals are over
        self._on_mark(operation, table.rows.capture)
        self._shared = None  # it has changed what offsets contain
        if operation is ChangeOperation.LOSS and self._settings.loss_mode == "truncate":
            place = self._place(position)
            offset = event_offset(place, is_last=True)
            self._append(self._builder.record(table.rows, TRUNCATED, None, None, place, offset))

    def _place(self, position: SequencePosition) -> EventRow:
        if self._shared is None:
            self._shared = share_values("false", self._extras.offset_extras)
        before, ms = self.position, position.ts_ms
        sequence_text = f'["{before.sequence}","{position.sequence}"]'
        earlier = before.sequence, before.ts_ms
        return EventRow(position.sequence, ms, ms * 1000, ms * 1_000_000, sequence_text, earlier, self._shared)

    def _change(self, table: StreamedSqliteTable, operation: int, entry: Entry, position: SequencePosition) -> None:
        replaced: Sequence[Entry] = ()
        if table.replaced:
            self._track(table, entry)
            if operation in (_INSERT, _UPDATE):
                replaced = table.replaced.take(entry)
        if table.is_signal_table and operation == _INSERT:
            self._signal(table, entry)
        rows = table.rows
        if not rows.key_indexes and self._is_read_later(rows.table.name, entry[FIXED_COLUMNS - 1]):
            return
        try:
            if not table.is_captured:
                self._contracts.capture(rows.judgment)
                table.is_captured, self._shared = True, None
            if replaced:
                self._replace(table, operation, entry, replaced, position)
            elif operation == _INSERT:
                self._emit(table, CREATED, rows.decode(entry, FIXED_COLUMNS), position)
            elif operation == _UPDATE:
                after = self._decode_update(table, entry, position)
                self._update(table, rows.decode_old(entry, FIXED_COLUMNS + table.width), after, position)
            elif operation == _DELETE:
                self._emit(table, DELETED, rows.decode_old(entry, FIXED_COLUMNS), position)
            elif operation == _TOUCH:
                self._emit(table, TOUCHED, rows.decode(entry, FIXED_COLUMNS), position)
        except CONVERSION_ERRORS as e:
            self._report(table, entry, e, position, is_last=True)

    def _report(
        self, table: StreamedSqliteTable, entry: Entry, error: Exception, position: SequencePosition, *, is_last: bool
    ) -> None:
        """Appends the report of a row that cannot be converted."""
        values = table.rows.raw_values(entry, FIXED_COLUMNS)
        offset = event_offset(self._place(position), is_last=is_last)
        self._append(self._builder.errant(table.rows, values, error, offset))

    def _decode_update(self, table: StreamedSqliteTable, entry: Entry, position: SequencePosition) -> tuple[Any, ...]:
        """Decodes the new row of an update. If it cannot be converted, its old key, if it had another one, is deleted."""
        rows = table.rows
        try:
            return rows.decode(entry, FIXED_COLUMNS)
        except CONVERSION_ERRORS:
            if rows.key_indexes and "u" not in self._settings.skipped:
                before, key = rows.decode_old(entry, FIXED_COLUMNS + table.width), self._new_key(table, entry)
                if rows.key_of(before) != key:
                    header = None if key is None else self._builder.key_header("__debezium.newkey", rows, key)
                    self._delete(table, before, self._place(position), header)
            raise

    def _new_key(self, table: StreamedSqliteTable, entry: Entry) -> list[Any] | None:
        """The record key of a row that may be impossible to convert; None if its key is, too, or the table has none."""
        try:
            return table.rows.key_of(table.rows.decode_old(entry, FIXED_COLUMNS))
        except CONVERSION_ERRORS:
            return None

    def _emit(self, table: StreamedSqliteTable, kind: EventKind, cells: tuple[Any, ...], position: SequencePosition) -> None:
        if kind.op in self._settings.skipped:
            return
        self.events += 1
        self.out.add_row(table.templates.of(kind), (*cells, *self._place(position)))

    def _append(self, record: Any) -> None:
        self.events += 1
        self.out.append(record)

    def _update(
        self, table: StreamedSqliteTable, before: tuple[Any, ...], after: tuple[Any, ...], position: SequencePosition
    ) -> None:
        rows = table.rows
        if self._settings.skip_unchanged and changes_nothing(before, after, rows.key_of):
            return
        if rows.key_of(before) == rows.key_of(after):
            self._emit(table, UPDATED, before + after, position)
        elif "u" not in self._settings.skipped:
            place = self._place(position)
            self._move(table, before, after, place, event_offset(place, is_last=True))

    def _move(
        self, table: StreamedSqliteTable, before: Sequence[Any], after: Sequence[Any], place: EventRow, offset: Mapping[str, Any]
    ) -> None:
        """A change of the key affects two rows downstream: the old one is deleted, the new one created."""
        rows, builder = table.rows, self._builder
        old_key, new_key = rows.key_of(before), rows.key_of(after)
        assert old_key is not None
        assert new_key is not None
        self._delete(table, before, place, builder.key_header("__debezium.newkey", rows, new_key))
        header = builder.key_header("__debezium.oldkey", rows, old_key)
        self._append(builder.record(rows, CREATED, None, after, place, offset, header))

    def _delete(self, table: StreamedSqliteTable, before: Sequence[Any], place: EventRow, header: Any = None) -> None:
        """A delete that does not complete its change."""
        rows, offset = table.rows, event_offset(place, is_last=False)
        deleted = self._builder.record(rows, DELETED, before, None, place, offset, header)
        self._append(deleted)
        if self._settings.tombstones and rows.key_indexes:
            self.out.append(tombstone_of(deleted, offset))

    def _replace(
        self, table: StreamedSqliteTable, operation: int, entry: Entry, replaced: Sequence[Entry], position: SequencePosition
    ) -> None:
        """A new row has replaced others. One with the same key is updated, the others are deleted, even if the new row cannot
        be converted."""
        rows, place = table.rows, self._place(position)
        key = self._new_key(table, entry)
        same: tuple[Any, ...] | None = None
        for candidate in replaced:
            try:
                values = rows.decode_old(candidate, FIXED_COLUMNS)
            except CONVERSION_ERRORS as e:
                self._report(table, candidate, e, position, is_last=False)
                continue
            if key is not None and rows.key_of(values) == key:
                same = values
            elif "d" not in self._settings.skipped:
                self._delete(table, values, place)
        if operation == _UPDATE:
            after = self._decode_update(table, entry, position)
            self._update(table, rows.decode_old(entry, FIXED_COLUMNS + table.width), after, position)
        elif same is None:
            self._emit(table, CREATED, rows.decode(entry, FIXED_COLUMNS), position)
        else:
            self._update(table, same, rows.decode(entry, FIXED_COLUMNS), position)

    def _signal(self, table: StreamedSqliteTable, entry: Entry) -> None:
        rows = table.rows
        values = rows.raw_values(entry, FIXED_COLUMNS)
        if len(values) != _SIGNAL_COLUMNS:
            log.warning("signal table %s must have 3 columns (id, type, data), but has %d", rows.table, len(values))
            return
        id_, type_, data = (value if value is None or isinstance(value, str) else str(value) for value in values)
        self._on_signal(Signal(id_ or "", type_ or "", data))
        self._shared = None  # it may have changed what offsets contain

    def take_records(self) -> MixedTextRecords:
        """Returns the records that were emitted and removes them."""
        batch, self.out = self.out, MixedTextRecords(self._builder.partition)
        return batch
