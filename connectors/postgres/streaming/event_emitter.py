"""Converts messages of the stream to change events.

A :class:`ChangeEventEmitter` lives as long as the task and tracks its position across connections. It reads whole CopyData
messages and appends records to ``out``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from connect.data.headers import Header
from connect.data.struct import Struct
from connect.record import SourceRecord
from connect.text_records import MixedTextRecords
from connectors.cdc.schema.column_type import CONVERSION_ERRORS
from connectors.cdc.schema.row_keys import changes_nothing
from connectors.cdc.streaming.transaction_metadata import MESSAGES, TransactionMetadata
from connectors.postgres.config import PostgresConfig
from connectors.postgres.offsets import StoredOffset, StreamPosition
from connectors.postgres.schema.errant_rows import errant_row
from connectors.postgres.schema.row_decoder import NullInRequiredError, TableRows, TupleDecoder
from connectors.postgres.schema.value_errors import ReplicaIdentityError, name_value
from connectors.postgres.streaming import pgoutput
from connectors.postgres.streaming.captured_tables import CapturedTables, sends_key
from connectors.postgres.streaming.cell_decoder import Cells
from connectors.postgres.streaming.change_events import ChangeEventBuilder, StreamedTable, TransactionValues
from connectors.postgres.streaming.change_templates import ChangeTemplate, change_template
from connectors.postgres.streaming.logical_messages import MESSAGE_TRANSACTION_AT, LogicalMessageBuilder
from connectors.postgres.streaming.observers import StreamObservers
from connectors.postgres.streaming.pgoutput import (
    DELETE,
    INSERT,
    KEY_TUPLE,
    OLD_TUPLE,
    UPDATE,
    pad_message,
    skip_tuple,
)
from connectors.postgres.streaming.position_tracker import PositionTracker
from connectors.postgres.streaming.replication import HEADER_SIZE
from connectors.postgres.streaming.reselection import Reselection
from connectors.postgres.streaming.stream_offsets import StreamOffsets
from connectors.postgres.streaming.toast import encode_tuple, fetch_unavailable_values

_u64 = struct.Struct("!Q").unpack_from
_MARKER_AT, _COLUMNS_AT = HEADER_SIZE + 5, HEADER_SIZE + 8
_OPERATIONS = {INSERT: "c", UPDATE: "u", DELETE: "d"}
_TRANSACTION_AT = 3
"""The position of the transaction block in an envelope."""
_MESSAGE_TYPES = {INSERT: "INSERT", UPDATE: "UPDATE", DELETE: "DELETE"}
_row_head = struct.Struct("!xQ16xBIB").unpack_from  # change LSN, kind, relation, kind of the first tuple


class CatchUpComplete(Exception):
    """The next transaction commits at or after ``stop_lsn``. Never leaves the package."""


class ChangeEventEmitter:
    """Converts messages to records, in order, each change once even if the server sends it again."""

    def __init__(
        self,
        settings: PostgresConfig,
        tables: CapturedTables,
        position: StreamPosition,
        version: str,
        observers: StreamObservers | None = None,
    ) -> None:
        self._settings = settings
        self._tables = tables
        self._observers = observers or StreamObservers()
        self._position = PositionTracker(position)
        self._builder = ChangeEventBuilder(settings, version)
        self.offsets = StreamOffsets(self._position, self._builder, self._observers)
        self._metadata = _transaction_metadata(settings)
        self._reselection = None if settings.reselection is None else Reselection(settings.reselection, tables)
        self._messages = LogicalMessageBuilder(settings, version)
        self._skipped = {kind for kind, op in _OPERATIONS.items() if op in settings.skipped}
        self._relations: dict[int, StreamedTable | None] = {}
        self._transaction: TransactionValues | None = None
        self.out = MixedTextRecords(self._builder.partition)
        self.events = 0
        self.stop_lsn: int | None = None
        """While set, CatchUpComplete ends the stream there."""

    # --- position -----------------------------------------------------------------------------------------------------------

    @property
    def lsn(self) -> int:
        """The newest LSN that was read."""
        return self._position.lsn

    @property
    def read_lsn(self) -> int:
        """All changes of transactions that commit before it were read."""
        return self._position.read_lsn()

    @property
    def commit_us(self) -> int | None:
        """When the last transaction that was read committed, in microseconds since 1970; None if there was none."""
        return self._position.commit_us

    def position(self) -> StreamPosition:
        """The position to continue from after a lost connection: behind the last emitted change."""
        return self._position.position()

    def reset_connection(self) -> None:
        """Prepares for a new connection, on which the server sends whole transactions and Relation messages again."""
        self._position.reset_connection()
        self._relations.clear()
        self._observers.reset()

    def skip_to(self, lsn: int) -> None:
        """Skips to ``lsn``: a snapshot contains everything that committed before."""
        self._position.skip_to(lsn)

    def restore_transaction(self, stored: StoredOffset) -> None:
        """Sets the last transaction of a stored offset."""
        self._position.xid = stored.tx_id
        if self._metadata is not None:
            self._metadata.restore(stored.transaction)

    def set_xmin(self, xmin: int | None) -> None:
        """Sets the oldest transaction whose catalog rows the slot needs, for the next transactions."""
        self._builder.xmin = xmin

    # --- messages -----------------------------------------------------------------------------------------------------------

    def on_keepalive(self, wal_end: int) -> None:
        """Handles a keepalive: every transaction that commits before ``wal_end`` was sent before it."""
        if self._position.in_transaction:
            return
        self._position.pass_idle(wal_end)
        self._reach_mark(wal_end)
        if self.stop_lsn is not None and wal_end >= self.stop_lsn:
            raise CatchUpComplete

    def on_data(self, data: bytes) -> None:
        """Handles a CopyData message of the stream. Rows come first: there are most of them."""
        lsn, kind, relation, marker = _row_head(data)  # other messages are long enough, too
        if kind not in _OPERATIONS:
            self._on_message(data)
            return
        position = self._position
        change = position.change = position.change + 1
        if change <= position.skip:
            position.skip_change(lsn)
            return
        capture = self._relations[relation]
        if capture is None or (lsn <= position.skip_lsn and position.is_emitted(lsn)):
            return
        if kind in self._skipped:
            position.enter_change(lsn)
            return
        if relation in self._observers.watched:
            self._observers.change(relation, capture.rows, data[HEADER_SIZE:], (position.tx_lsn, change))
            self._transaction = None  # it may have changed what offsets contain
        cells: Cells | None = ()
        try:
            if self._reselection is not None:
                data = self._reselection.apply(data, kind, capture.rows, position.xid)
            template = capture.templates.get(kind << 8 | marker) or self._template(capture, kind, marker)
            cells = template.decode(data, _COLUMNS_AT)
            if cells is None:
                position.enter_change(lsn)
                self._on_changed_row(data, marker, capture)
                return
        except NullInRequiredError as e:
            capture.set_rows(self._tables.make_nullable(capture.rows, e.column))
            position.change = change - 1
            self.on_data(data)
            return
        except Exception as e:
            if isinstance(e, CONVERSION_ERRORS) and not isinstance(e, ReplicaIdentityError):
                if cells is not None:
                    position.enter_change(lsn)
                self._emit_errant(data, kind, capture, e)
                return
            position.change = change - 1  # it was not emitted, so it must be read again after a restart
            if isinstance(e, ReplicaIdentityError):
                raise name_value(capture.rows, _texts(capture.rows, data), e) from e
            raise
        row = (*cells, str(lsn), position.complete_change(lsn), change, self._transaction or self._transaction_values())
        self.events += 1
        if self._metadata is None:
            self.out.add_row(template.records, row)
        else:
            records = template.records.reader.create(row)
            self._metadata.add_change(records, str(capture.rows.table), _TRANSACTION_AT)
            for record in records:
                self.out.append(record)

    def _emit_errant(self, data: bytes, kind: int, capture: StreamedTable, error: Exception) -> None:
        """Emits the report of a change that cannot be converted in its place: the change is completed."""
        offset = self.offsets.of_record(_MESSAGE_TYPES[kind], last=True)
        texts, mode = _texts(capture.rows, data), self._settings.events.failure_mode
        self.out.append(errant_row(capture.rows, texts, error, mode, self._builder.partition, offset))

    def _template(self, capture: StreamedTable, kind: int, marker: int) -> ChangeTemplate:
        """How to emit a kind of message without its record."""
        self._tables.capture(capture.rows)
        self._transaction = None  # that may have changed what offsets contain
        found = capture.templates[kind << 8 | marker] = change_template(capture, self._builder, kind, marker)
        return found

    def _on_message(self, data: bytes) -> None:
        """Handles a message that is no row."""
        message = pgoutput.decode(data[HEADER_SIZE:])
        match message:
            case pgoutput.Begin():
                self._begin(message, _u64(data, 1)[0])
            case pgoutput.Commit():
                self._commit(message, _u64(data, 1)[0])
            case pgoutput.Relation():
                rows = self._tables.bind_relation(message)
                self._relations[message.oid] = None if rows is None else StreamedTable(rows, sends_key(message, rows))
                self._observers.bind(message.oid, rows)
            case pgoutput.TypeName():
                self._tables.name_type(message)
            case pgoutput.Truncate():
                self._truncate(message, _u64(data, 1)[0])
            case pgoutput.LogicalMessage():
                self._message(message, _u64(data, 1)[0])
            case pgoutput.Origin():
                self._builder.set_origin(message.name, message.commit_lsn)
                self._transaction = None

    def _message(self, message: pgoutput.LogicalMessage, lsn: int) -> None:
        """Emits a logical message. One of a transaction counts as a change of it."""
        position, messages = self._position, self._messages
        if message.transactional:
            position.change += 1
            if position.change <= position.skip or (lsn <= position.skip_lsn and position.is_emitted(lsn)):
                return
            if messages.captures(message.prefix):
                position.enter_message(lsn)
                sequence = f'{self._transaction_values().sequence}{lsn}"]'
                offset = self.offsets.of_record("MESSAGE", last=True)
                record = messages.record(message, offset, sequence, position.commit_us, self._builder.xmin)
                if self._metadata is not None:
                    self._metadata.add(record, MESSAGES, MESSAGE_TRANSACTION_AT, is_last=True)
                self.out.append(record)
            return
        if lsn <= position.done_lsn or not messages.captures(message.prefix):
            return
        if self.stop_lsn is not None and lsn >= self.stop_lsn:
            raise CatchUpComplete
        offset = self.offsets.of_message(lsn)
        self.out.append(messages.record(message, offset, f'["{lsn}","{lsn}"]', position.commit_us, self._builder.xmin))

    def _begin(self, begin: pgoutput.Begin, lsn: int) -> None:
        if self.stop_lsn is not None and begin.final_lsn >= self.stop_lsn:
            raise CatchUpComplete
        self._reach_mark(begin.final_lsn)
        self._observers.on_begin(begin.xid)
        self._builder.start_transaction(begin, self._position)
        self._transaction = None
        self._position.begin(begin)
        if self._metadata is not None and not self._position.is_completed:
            offset = self.offsets.of_record("BEGIN", last=True)
            xid, ts_ms = str(begin.xid), begin.commit_us // 1000
            if (record := self._metadata.begin(xid, f"{xid}:{lsn}", ts_ms, offset)) is not None:
                self.out.append(record)

    def _commit(self, commit: pgoutput.Commit, lsn: int) -> None:
        is_completed = self._position.is_completed
        self._position.commit(commit.end_lsn)
        if self._metadata is not None and not is_completed:
            offset = self.offsets.of_position() or self.offsets.of_record("COMMIT", last=True)
            name, ts_ms = f"{self._position.xid}:{lsn}", commit.commit_us // 1000
            if (record := self._metadata.end(name, ts_ms, offset | self.offsets.extras())) is not None:
                self.out.append(record)
        self._reach_mark(commit.end_lsn)

    def _reach_mark(self, lsn: int) -> None:
        """Emits what waits for this LSN, unless an offset of Debezium inside a transaction is still the position."""
        if lsn >= self._observers.mark and (offset := self.offsets.of_plain_position()) is not None:
            for record in self._observers.reach_mark(offset):
                self.out.append(record)
            self._transaction = None  # its offsets are those of before

    def _on_changed_row(self, data: bytes, marker: int, capture: StreamedTable) -> None:
        """Handles an update with the old row, or its key, that may change the key or may have to be skipped."""
        rows = capture.rows
        old = _decoded(rows.decode_new if marker == OLD_TUPLE else rows.decode_key_only, data, _COLUMNS_AT)
        if marker == KEY_TUPLE:
            new = _with_unavailable_values(self._tables, rows, data, self._position.xid)
        else:
            new = _decoded(rows.decode_before_fill, data, skip_tuple(data, _MARKER_AT + 1) + 3)
            rows.fill_unchanged(new, old)
        if self._settings.skip_unchanged and marker != KEY_TUPLE and changes_nothing(old, new, rows.key_of):
            return
        old_key, new_key = rows.key_of(old), rows.key_of(new)
        if new_key is None or old_key is None or old_key == new_key:
            self._emit(capture, "u", "UPDATE", old, new, new_key)
            return
        # A key change affects two rows downstream: delete the old one, create the new one.
        schema = rows.schemas.key
        assert schema is not None
        deleted = self._emit(
            capture, "d", "UPDATE", old, None, old_key, Header("__debezium.newkey", schema, Struct(schema, new_key)), last=False
        )
        if self._settings.tombstones:
            assert deleted.source_offset is not None
            self.out.append(self._builder.tombstone(deleted, deleted.source_offset))
        self._emit(capture, "c", "UPDATE", None, new, new_key, Header("__debezium.oldkey", schema, Struct(schema, old_key)))

    def _truncate(self, truncate: pgoutput.Truncate, lsn: int) -> None:
        position = self._position
        position.change += 1
        if position.change <= position.skip or (lsn <= position.skip_lsn and position.is_emitted(lsn)):
            return
        self._observers.truncate_all(truncate.relations)
        if "t" in self._settings.skipped:
            return
        captures = [capture for oid in truncate.relations if (capture := self._relations.get(oid)) is not None]
        position.enter_change(lsn)
        for capture in captures:
            self._emit(capture, "t", "TRUNCATE", None, None, None, last=capture is captures[-1])

    def _emit(
        self,
        capture: StreamedTable,
        op: str,
        name: str,
        before: list[Any] | None,
        after: list[Any] | None,
        key: list[Any] | None,
        header: Header | None = None,
        last: bool = True,
    ) -> SourceRecord:
        self.events += 1
        offset = self.offsets.of_record(name, last=last)
        record = self._builder.change(capture, self._transaction_values(), offset, op, before, after, key, header)
        if self._metadata is not None:
            self._metadata.add(record, str(capture.rows.table), _TRANSACTION_AT, is_last=last)
        self.out.append(record)
        return record

    def _transaction_values(self) -> TransactionValues:
        """What the changes of the current transaction share, as far as they are in the current batch."""
        if self._transaction is None:
            self._transaction = self._builder.transaction_values(self.offsets.extras())
        return self._transaction

    def take_records(self) -> MixedTextRecords:
        """Returns the records that were emitted and removes them."""
        batch, self.out = self.out, MixedTextRecords(self._builder.partition)
        self._transaction = None  # the next events have another time
        return batch


def _transaction_metadata(settings: PostgresConfig) -> TransactionMetadata | None:
    if not settings.events.transaction_metadata:
        return None

    def name(xid: str, offset: Mapping[str, Any]) -> str:
        return f"{xid}:{offset['lsn']}"

    return TransactionMetadata(settings.topic_prefix, settings.topic_delimiter, settings.events, name)


def _with_unavailable_values(tables: CapturedTables, rows: TableRows, data: bytes, xid: int | None) -> list[Any]:
    """The new row of a key change, with unavailable values read from the table."""
    message = pgoutput.decode(data[HEADER_SIZE:])
    assert isinstance(message, pgoutput.Update)
    assert message.old is not None
    # The old key has its unchanged columns too.
    values = [
        old if value is pgoutput.UNCHANGED and isinstance(old, bytes) else value
        for value, old in zip(message.new, message.old, strict=True)
    ]
    if pgoutput.UNCHANGED in values:
        values = fetch_unavailable_values(tables.connect, rows, values, xid)
    return rows.decode_new(encode_tuple(values), 0)


def _texts(rows: TableRows, data: bytes) -> list[Any]:
    """The texts of a row's columns."""
    message = pgoutput.decode(data[HEADER_SIZE:])
    assert isinstance(message, pgoutput.Insert | pgoutput.Update | pgoutput.Delete)
    sent = message.old if isinstance(message, pgoutput.Delete) else message.new
    texts = [value.decode() if isinstance(value, bytes) else value for value in sent]
    return [texts[column.source_index] for column in rows.columns]


def _decoded(decode: TupleDecoder, data: bytes, at: int) -> list[Any]:
    try:
        return decode(data, at)
    except struct.error:
        return decode(pad_message(data), at)
