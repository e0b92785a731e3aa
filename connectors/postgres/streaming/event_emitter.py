"""Converts messages of the stream to change events.

A :class:`ChangeEventEmitter` lives as long as the task and tracks its position across connections. It reads whole CopyData
messages and appends records to ``out``.
"""

from __future__ import annotations

import struct
import time
from typing import Any

from connect.data.headers import Headers
from connect.data.struct import Struct
from connect.errors import DataError, RetriableError
from connect.record import SourceRecord
from connectors.postgres.config import PostgresConfig
from connectors.postgres.offsets import TX_EVENTS, TX_LSN, StreamPosition, catch_up_offset, source_partition
from connectors.postgres.schema import envelope as env
from connectors.postgres.schema.row_decoder import NullInRequiredError, TableRows, TupleDecoder
from connectors.postgres.schema.value_errors import CONVERSION_ERRORS, name_value
from connectors.postgres.streaming import pgoutput
from connectors.postgres.streaming.captured_tables import CapturedTables, sends_key
from connectors.postgres.streaming.flush_lsn import FlushTracker
from connectors.postgres.streaming.pgoutput import (
    DELETE,
    INSERT,
    KEY_TUPLE,
    NEW_TUPLE,
    OLD_TUPLE,
    UPDATE,
    pad_message,
    skip_tuple,
)
from connectors.postgres.streaming.replication import HEADER_SIZE
from connectors.postgres.streaming.toast import encode_tuple, fetch_unavailable_values

_u64 = struct.Struct("!Q").unpack_from
_MARKER_AT, _COLUMNS_AT = HEADER_SIZE + 5, HEADER_SIZE + 8
_SKIP_ALL = 1 << 62
_OPERATIONS = {INSERT: "c", UPDATE: "u", DELETE: "d"}
_row_head = struct.Struct("!xQ16xBIB").unpack_from  # change LSN, kind, relation, kind of the first tuple


class _StreamedTable:
    """A captured table in the stream, with the source block of the current transaction.

    ``sends_key``: updates and deletes contain the old record key if it changed.
    """

    __slots__ = ("base", "rows", "sends_key", "transaction")

    def __init__(self, rows: TableRows, sends_key: bool) -> None:
        self.rows = rows
        self.sends_key = sends_key
        self.base: list[Any] = []
        self.transaction = -1


class CatchUpComplete(Exception):
    """The next transaction commits at or after ``stop_lsn``. Never leaves the package."""


# Large class: splitting position tracking from event building is planned with the state machine of the task.
class ChangeEventEmitter:
    """Converts messages to records, in order, each change once even if the server sends it again."""

    def __init__(
        self,
        settings: PostgresConfig,
        tables: CapturedTables,
        position: StreamPosition,
        flush_tracker: FlushTracker,
        version: str,
    ) -> None:
        self._settings = settings
        self._tables = tables
        self._flush_tracker = flush_tracker
        self._version = version
        self._partition = source_partition(settings.topic_prefix)
        self._skipped = {kind for kind, op in _OPERATIONS.items() if op in settings.skipped}
        self._relations: dict[int, _StreamedTable | None] = {}
        self._resume = position
        self.done_lsn = position.done_lsn
        self.out: list[SourceRecord] = []
        self.events = 0
        self.lsn = position.done_lsn
        self.commit_us: int | None = None
        self.stop_lsn: int | None = None
        """While set, offsets of changes still require a snapshot, and CatchUpComplete ends the stream there."""
        # the current transaction
        self.in_transaction = False
        self._number = 0
        self._tx_lsn = position.tx_lsn
        self._tx_us = 0
        self._xid: int | None = None
        self._change = position.tx_events
        self._skip = 0
        self._skip_lsn = 0
        self._emitted_tx, self._emitted_events = position.tx_lsn, position.tx_events
        self._sequence_start = "[null,"
        self._origin: tuple[str, int] | None = None
        self._event_lsn = self._same_lsn = 0

    # --- position -----------------------------------------------------------------------------------------------------------

    def position(self) -> StreamPosition:
        """The position to continue from after a lost connection: behind the last emitted change."""
        if self.in_transaction:
            return StreamPosition(self.done_lsn, self._tx_lsn, self._change)
        return StreamPosition(
            self.done_lsn, self._resume.tx_lsn, self._resume.tx_events, self._resume.xid, self._resume.event_lsn
        )

    def reset_connection(self) -> None:
        """Prepares for a new connection, on which the server sends whole transactions and Relation messages again."""
        self._resume = self.position()
        self.in_transaction = False
        self._relations.clear()

    def skip_to(self, lsn: int) -> None:
        """Skips to ``lsn``: a snapshot contains everything that committed before."""
        self.done_lsn = max(self.done_lsn, lsn)
        self.lsn = max(self.lsn, lsn)
        self._resume = StreamPosition(self.done_lsn)
        self.in_transaction = False

    def heartbeat_offset(self) -> dict[str, Any]:
        """The offset for the position up to which the stream was read."""
        offset: dict[str, Any] = {
            "lsn": self.lsn,
            "lsn_proc": self.lsn,
            "lsn_commit": self.done_lsn,
            TX_LSN: self._emitted_tx,
            TX_EVENTS: self._emitted_events,
        }
        if self.commit_us is not None:
            offset["ts_usec"] = self.commit_us
        return offset

    # --- messages -----------------------------------------------------------------------------------------------------------

    def on_keepalive(self, wal_end: int) -> None:
        """Handles a keepalive: every transaction that commits before ``wal_end`` was sent before it."""
        if self.in_transaction:
            return
        if wal_end > self.done_lsn:
            self.done_lsn = self.lsn = wal_end
            self._flush_tracker.position_passed(wal_end)
        if self.stop_lsn is not None and wal_end >= self.stop_lsn:
            raise CatchUpComplete

    def on_data(self, data: bytes) -> None:
        """Handles a CopyData message of the stream."""
        if data[HEADER_SIZE] in _OPERATIONS:
            self._on_row(data)
            return
        message = pgoutput.decode(data[HEADER_SIZE:])
        match message:
            case pgoutput.Begin():
                self._begin(message)
            case pgoutput.Commit():
                self._commit(message)
            case pgoutput.Relation():
                rows = self._tables.bind_relation(message)
                self._relations[message.oid] = None if rows is None else _StreamedTable(rows, sends_key(message, rows))
            case pgoutput.Truncate():
                self._truncate(message, _u64(data, 1)[0])
            case pgoutput.Origin():
                self._origin = (message.name, message.commit_lsn)

    def _begin(self, begin: pgoutput.Begin) -> None:
        if self.stop_lsn is not None and begin.final_lsn >= self.stop_lsn:
            raise CatchUpComplete
        resume = self._resume
        self._skip = self._skip_lsn = 0
        # Promise 5: skip exactly the changes that were already emitted. Only commit order decides; the LSN of a change does
        # not, because its transaction may have started long before.
        if begin.final_lsn < self.done_lsn:
            self._skip = _SKIP_ALL
        elif begin.final_lsn == resume.tx_lsn:
            self._skip = resume.tx_events
        elif resume.xid is not None and begin.xid == resume.xid:
            self._skip_lsn = resume.event_lsn
        self.in_transaction = True
        self._number += 1
        self._sequence_start = f'["{self.done_lsn}",' if self.done_lsn else "[null,"
        self._tx_lsn, self._tx_us, self._xid = begin.final_lsn, begin.commit_us, begin.xid
        self._change = 0
        self._origin = None
        self.commit_us = begin.commit_us

    def _commit(self, commit: pgoutput.Commit) -> None:
        self.in_transaction = False
        if commit.end_lsn > self.done_lsn:
            self.done_lsn = self.lsn = commit.end_lsn
            self._resume = StreamPosition(commit.end_lsn)
            self._flush_tracker.transaction_completed(self._emitted_tx, self._emitted_events, commit.end_lsn)

    def _on_row(self, data: bytes) -> None:
        """Handles an insert, update, or delete. The common case (no old row) is inlined for speed."""
        change = self._change = self._change + 1
        if change <= self._skip:
            return
        lsn, kind, relation, marker = _row_head(data)
        capture = self._relations[relation]
        if capture is None or lsn <= self._skip_lsn:
            return
        if lsn == self._event_lsn:
            self._same_lsn += 1
        else:
            self._event_lsn, self._same_lsn = lsn, 1
        self.lsn = lsn
        if kind in self._skipped:
            return
        rows = capture.rows
        try:
            if kind != INSERT and not capture.sends_key:
                raise DataError("the replica identity of the table does not contain the record key (message.key.columns)")
            if marker != NEW_TUPLE:
                self._on_old_row(data, kind, marker, capture, lsn)
                return
            try:
                new = rows.decode_new(data, _COLUMNS_AT)
            except struct.error:
                new = rows.decode_new(pad_message(data), _COLUMNS_AT)
        except NullInRequiredError as e:
            capture.rows = self._tables.make_nullable(rows, e.column)
            self._change = change - 1
            self._on_row(data)
            return
        except RetriableError:
            # The change was not emitted: it must be read again after a restart.
            self._change = change - 1
            raise
        except CONVERSION_ERRORS as e:
            self._change = change - 1
            raise _named(rows, data, e) from e
        if kind == INSERT:
            self._emit(capture, lsn, "c", "INSERT", None, new, rows.key_of(new))
        else:
            self._emit(capture, lsn, "u", "UPDATE", None, new, rows.key_of(new))

    def _on_old_row(self, data: bytes, kind: int, marker: int, capture: _StreamedTable, lsn: int) -> None:
        """Handles a delete, or an update with the old row or its key."""
        rows = capture.rows
        old = _decoded(rows.decode_new if marker == OLD_TUPLE else rows.decode_key_only, data, _COLUMNS_AT)
        old_key = rows.key_of(old)
        if kind == DELETE:
            self._delete(capture, lsn, "DELETE", old, old_key, None, last=True)
            return
        if marker == KEY_TUPLE:
            new = self._with_unavailable_values(rows, data)
        else:
            new = _decoded(rows.decode_before_fill, data, skip_tuple(data, _MARKER_AT + 1) + 3)
            rows.fill_unchanged(new, old)
        if self._settings.skip_unchanged and marker != KEY_TUPLE and old == new:
            return
        new_key = rows.key_of(new)
        if new_key is None or old_key is None or old_key == new_key:
            self._emit(capture, lsn, "u", "UPDATE", old, new, new_key)
            return
        # A key change affects two rows downstream: delete the old one, create the new one.
        schema = rows.schemas.key
        assert schema is not None
        delete_headers = Headers().add("__debezium.newkey", Struct(schema, new_key), schema)
        create_headers = Headers().add("__debezium.oldkey", Struct(schema, old_key), schema)
        self._delete(capture, lsn, "UPDATE", old, old_key, delete_headers, last=False)
        self._emit(capture, lsn, "c", "UPDATE", None, new, new_key, create_headers)

    def _with_unavailable_values(self, rows: TableRows, data: bytes) -> list[Any]:
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
            values = fetch_unavailable_values(self._tables.connect, rows, values, self._xid)
        return rows.decode_new(encode_tuple(values), 0)

    def _delete(
        self,
        capture: _StreamedTable,
        lsn: int,
        name: str,
        old: list[Any],
        key: list[Any] | None,
        headers: Headers | None,
        *,
        last: bool,
    ) -> None:
        """Emits a delete with its tombstone. ``last``: they complete the change."""
        tombstone = self._settings.tombstones and key is not None
        self._emit(capture, lsn, "d", name, old, None, key, headers, last=last and not tombstone)
        if tombstone:
            schema = capture.rows.schemas.key
            assert schema is not None
            assert key is not None
            before = self.out[-1].source_offset
            assert before is not None
            offset = before
            if last:
                self._emitted_events = self._change
                offset = {**before, TX_EVENTS: self._change, "lsn_events_processed": self._same_lsn}
            self.out.append(SourceRecord(self._partition, offset, capture.rows.topic, None, schema, Struct(schema, key)))

    def _truncate(self, truncate: pgoutput.Truncate, lsn: int) -> None:
        self._change += 1
        if self._change <= self._skip or lsn <= self._skip_lsn or "t" in self._settings.skipped:
            return
        captures = [capture for oid in truncate.relations if (capture := self._relations.get(oid)) is not None]
        self.lsn = self._event_lsn = lsn
        self._same_lsn = 1
        for capture in captures:
            self._emit(capture, lsn, "t", "TRUNCATE", None, None, None, last=capture is captures[-1])

    def _emit(
        self,
        capture: _StreamedTable,
        lsn: int,
        op: str,
        name: str,
        before: list[Any] | None,
        after: list[Any] | None,
        key: list[Any] | None,
        headers: Headers | None = None,
        last: bool = True,
    ) -> None:
        rows = capture.rows
        schemas = rows.schemas
        if capture.transaction != self._number:
            capture.base = self._source_base(rows)
            capture.transaction = self._number
        source = capture.base.copy()
        source[6] = f'{self._sequence_start}"{lsn}"]'  # env.SEQUENCE; a global costs as much as the assignment
        source[12] = lsn  # env.LSN
        ns = time.time_ns()
        us = ns // 1000
        value = schemas.value
        envelope = schemas.envelope
        key_schema = schemas.key
        # The offset of a record that is not the last of its change excludes the change: a restart repeats all of it.
        done = self._change if last else self._change - 1
        offset = {
            "ts_usec": self._tx_us,
            "txId": self._xid,
            "lsn": lsn,
            "lsn_proc": lsn,
            "lsn_commit": self.done_lsn,
            "messageType": name,
            "lsn_events_processed": self._same_lsn if last else self._same_lsn - 1,
            TX_LSN: self._tx_lsn,
            TX_EVENTS: done,
        }
        self._emitted_events = done
        self._emitted_tx = self._tx_lsn
        self.events += 1
        self.out.append(
            SourceRecord(
                self._partition,
                offset if self.stop_lsn is None else catch_up_offset(offset),
                rows.topic,
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
                headers,
            )
        )

    def _source_base(self, rows: TableRows) -> list[Any]:
        settings, table = self._settings, rows.table
        base = env.source_values(self._version, settings.topic_prefix, settings.address.database, table.schema, table.name)
        base[env.TS_MS], base[env.TS_US], base[env.TS_NS] = self._tx_us // 1000, self._tx_us, self._tx_us * 1000
        base[env.TX_ID] = self._xid
        if self._origin is not None:
            base[env.ORIGIN], base[env.ORIGIN_LSN] = self._origin
        return base


def _named(rows: TableRows, data: bytes, error: Exception) -> DataError:
    """The error for a change that cannot be converted, with table, column, and key."""
    message = pgoutput.decode(data[HEADER_SIZE:])
    assert isinstance(message, pgoutput.Insert | pgoutput.Update | pgoutput.Delete)
    sent = message.old if isinstance(message, pgoutput.Delete) else message.new
    texts = [value.decode() if isinstance(value, bytes) else value for value in sent]
    return name_value(rows, [texts[column.source_index] for column in rows.columns], error)


def _decoded(decode: TupleDecoder, data: bytes, at: int) -> list[Any]:
    try:
        return decode(data, at)
    except struct.error:
        return decode(pad_message(data), at)
