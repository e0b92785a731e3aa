"""From the stream's messages to change events.

One :class:`ChangeReader` lives as long as the task; it survives connections, for it knows how far it has come. It takes whole
CopyData messages and appends records to ``out``.
"""

from __future__ import annotations

import struct
import time
from typing import Any

from connect.data.headers import Headers
from connect.data.struct import Struct
from connect.errors import ConnectError
from connect.record import SourceRecord
from connectors.postgres.config import Settings
from connectors.postgres.offsets import TX_EVENTS, TX_LSN, Position, catch_up_offset, source_partition
from connectors.postgres.schema import envelope as env
from connectors.postgres.schema.captured_tables import Tables
from connectors.postgres.schema.row_decoder import NullInRequiredError, TableRows, TupleDecoder
from connectors.postgres.streaming import pgoutput
from connectors.postgres.streaming.flush_lsn import Confirmation
from connectors.postgres.streaming.pgoutput import DELETE, INSERT, KEY_TUPLE, NEW_TUPLE, OLD_TUPLE, UPDATE, padded, skip_tuple
from connectors.postgres.streaming.replication import HEADER
from connectors.postgres.streaming.toast import encoded, fill_unsent

_u64 = struct.Struct("!Q").unpack_from
_MARKER_AT, _COLUMNS_AT = HEADER + 5, HEADER + 8
_EVERYTHING = 1 << 62
_OPERATIONS = {INSERT: "c", UPDATE: "u", DELETE: "d"}
_row_head = struct.Struct("!xQ16xBIB").unpack_from  # change LSN, kind, relation, what tuple comes first


class _Capture:
    """A captured table in the stream: its rows, and the source block of the present transaction."""

    __slots__ = ("base", "rows", "transaction")

    def __init__(self, rows: TableRows) -> None:
        self.rows = rows
        self.base: list[Any] = []
        self.transaction = -1


class CaughtUp(Exception):
    """The next transaction commits at or after ``stop_lsn``. Never leaves the package."""


class ChangeReader:
    """Turns messages into records, in order, each change once whatever the server sends again."""

    def __init__(self, settings: Settings, tables: Tables, position: Position, confirmation: Confirmation, version: str) -> None:
        self._settings = settings
        self._tables = tables
        self._confirmation = confirmation
        self._version = version
        self._partition = source_partition(settings.topic_prefix)
        self._skipped = {kind for kind, op in _OPERATIONS.items() if op in settings.skipped}
        self._relations: dict[int, _Capture | None] = {}
        self._resume = position
        self.done_lsn = position.done_lsn
        self.out: list[SourceRecord] = []
        self.events = 0
        self.lsn = position.done_lsn
        self.commit_us: int | None = None
        self.stop_lsn: int | None = None
        """While set, changes carry offsets that still ask for a snapshot, and CaughtUp ends the stream there."""
        # the transaction at hand
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

    def position(self) -> Position:
        """Where to go on after a lost connection: behind the last change that was handed out."""
        if self.in_transaction:
            return Position(self.done_lsn, self._tx_lsn, self._change)
        return Position(self.done_lsn, self._resume.tx_lsn, self._resume.tx_events, self._resume.xid, self._resume.event_lsn)

    def restart(self) -> None:
        """A new connection: the server begins again with whole transactions and Relation messages."""
        self._resume = self.position()
        self.in_transaction = False
        self._relations.clear()

    def jump(self, lsn: int) -> None:
        """Everything that commits before ``lsn`` is done, for a snapshot holds it."""
        self.done_lsn = max(self.done_lsn, lsn)
        self.lsn = max(self.lsn, lsn)
        self._resume = Position(self.done_lsn)
        self.in_transaction = False

    def heartbeat_offset(self) -> dict[str, Any]:
        """An offset that says how far the stream was read, between transactions or inside one."""
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
        """Every transaction that commits before ``wal_end`` was sent before this message."""
        if self.in_transaction:
            return
        if wal_end > self.done_lsn:
            self.done_lsn = self.lsn = wal_end
            self._confirmation.passed(wal_end)
        if self.stop_lsn is not None and wal_end >= self.stop_lsn:
            raise CaughtUp

    def on_data(self, data: bytes) -> None:
        """One CopyData message of the stream."""
        if data[HEADER] in _OPERATIONS:
            self._on_row(data)
            return
        message = pgoutput.decode(data[HEADER:])
        match message:
            case pgoutput.Begin():
                self._begin(message)
            case pgoutput.Commit():
                self._commit(message)
            case pgoutput.Relation():
                rows = self._tables.bind(message)
                self._relations[message.oid] = None if rows is None else _Capture(rows)
            case pgoutput.Truncate():
                self._truncate(message, _u64(data, 1)[0])
            case pgoutput.Origin():
                self._origin = (message.name, message.commit_lsn)
            case pgoutput.LogicalMessage():
                self._change += 1

    def _begin(self, begin: pgoutput.Begin) -> None:
        if self.stop_lsn is not None and begin.final_lsn >= self.stop_lsn:
            raise CaughtUp
        resume = self._resume
        self._skip = self._skip_lsn = 0
        # Promise 5: what was handed out already is not handed out again, what was not always is. Only the order of commits
        # decides; a change's own LSN says nothing, for its transaction may have begun long before.
        if begin.final_lsn < self.done_lsn:
            self._skip = _EVERYTHING
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
            self._resume = Position(commit.end_lsn)
            self._confirmation.completed(self._emitted_tx, self._emitted_events, commit.end_lsn)

    def _on_row(self, data: bytes) -> None:
        """An insert, update or delete. The common case (a new row, no old one) is written out here: it is where the time goes."""
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
            if marker != NEW_TUPLE:
                self._on_old_row(data, kind, marker, capture, lsn)
                return
            try:
                new = rows.decode_new(data, _COLUMNS_AT)
            except struct.error:
                new = rows.decode_new(padded(data), _COLUMNS_AT)
        except NullInRequiredError as e:
            capture.rows = self._tables.relax(rows, e.column)
            self._change = change - 1
            self._on_row(data)
            return
        except ConnectError:
            # The change is not handed out: whoever goes on from here must see it again.
            self._change = change - 1
            raise
        if kind == INSERT:
            self._emit(capture, lsn, "c", "INSERT", None, new, rows.key_of(new))
        else:
            self._emit(capture, lsn, "u", "UPDATE", None, new, rows.key_of(new))

    def _on_old_row(self, data: bytes, kind: int, marker: int, capture: _Capture, lsn: int) -> None:
        """A delete, or an update that came with the old row or its key."""
        rows = capture.rows
        old = _decoded(rows.decode_new if marker == OLD_TUPLE else rows.decode_key_only, data, _COLUMNS_AT)
        old_key = rows.key_of(old)
        if kind == DELETE:
            self._delete(capture, lsn, "DELETE", old, old_key, None, last=True)
            return
        if marker == KEY_TUPLE:
            new = self._with_unsent(rows, data)
        else:
            new = _decoded(rows.decode_new, data, skip_tuple(data, _MARKER_AT + 1) + 3)
        rows.fill_unchanged(new, old)
        if self._settings.skip_unchanged and marker != KEY_TUPLE and old == new:
            return
        new_key = rows.key_of(new)
        if new_key is None or old_key is None or old_key == new_key:
            self._emit(capture, lsn, "u", "UPDATE", old, new, new_key)
            return
        # A changed key is two rows to everyone downstream: the old one goes, the new one comes.
        schema = rows.schemas.key
        assert schema is not None
        gone = Headers().add("__debezium.newkey", Struct(schema, new_key), schema)
        came = Headers().add("__debezium.oldkey", Struct(schema, old_key), schema)
        self._delete(capture, lsn, "UPDATE", old, old_key, gone, last=False)
        self._emit(capture, lsn, "c", "UPDATE", None, new, new_key, came)

    def _with_unsent(self, rows: TableRows, data: bytes) -> list[Any]:
        """The new row of a key change, with the TOASTed values that the change did not send."""
        message = pgoutput.decode(data[HEADER:])
        assert isinstance(message, pgoutput.Update)
        values = message.new
        if pgoutput.UNCHANGED in values:
            values = fill_unsent(self._tables.connect, rows, values, self._xid)
        return rows.decode_new(encoded(values), 0)

    def _delete(
        self,
        capture: _Capture,
        lsn: int,
        name: str,
        old: list[Any],
        key: list[Any] | None,
        headers: Headers | None,
        *,
        last: bool,
    ) -> None:
        """A delete with its tombstone. ``last``: the change is complete with them."""
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
        capture: _Capture,
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
        # A record that is not the last of its change says that the change is still to come: a restart repeats it as a whole.
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


def _decoded(decode: TupleDecoder, data: bytes, at: int) -> list[Any]:
    try:
        return decode(data, at)
    except struct.error:
        return decode(padded(data), at)
