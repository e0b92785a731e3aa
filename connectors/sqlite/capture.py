"""Runs snapshot and stream: installs triggers, reads changes and rows, and notices what happens to the database."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from connect.errors import ConfigError, ConnectError, RetriableError
from connect.record import SourceRecord
from connect.text_records import LazyRecords
from connect.version import sluice_version
from connectors.cdc.config.signal_keys import BACKFILL_NONE
from connectors.cdc.errors import ConnectionLostError
from connectors.cdc.incremental.requests import SnapshotRequest
from connectors.cdc.offsets import CONTRACTS, source_partition
from connectors.cdc.schema.checks import check_collection_count, check_table_topics
from connectors.cdc.schema.contracts import SchemaContracts, parse_contracts
from connectors.cdc.schema.filters import Filters
from connectors.cdc.states import CaptureState
from connectors.cdc.streaming.heartbeat import Heartbeat
from connectors.cdc.streaming.offset_extras import OffsetExtras
from connectors.cdc.streaming.offset_tracker import OffsetPairs, OffsetTracker
from connectors.cdc.streaming.read_pace import ReadPace
from connectors.sqlite.config import SqliteConfig
from connectors.sqlite.connection import SqliteConnection
from connectors.sqlite.errors import DatabaseReplacedError, TriggersLostError
from connectors.sqlite.offsets import DATABASE_ID, StoredOffset, StreamPosition, parse_offset
from connectors.sqlite.schema.catalog import MAIN, CapturedTable, read_captured_tables
from connectors.sqlite.sessions import DatabaseFile
from connectors.sqlite.signals import SqliteSignals
from connectors.sqlite.snapshot.jobs import JobKind
from connectors.sqlite.snapshot.session import ReadDeadline, SnapshotSession
from connectors.sqlite.streaming.emitter import ChangeEmitter
from connectors.sqlite.streaming.events import EventBuilder
from connectors.sqlite.streaming.reader import ChangeReader
from connectors.sqlite.triggers.ddl import Operation, stored_columns
from connectors.sqlite.triggers.installation import Captures, Installation, TableCapture

log = logging.getLogger(__name__)

_SHORTEST_WAIT_S: Final = 0.001
_LONGEST_WAIT_S: Final = 0.02
"""How often an idle source looks for commits, which costs about 10 microseconds."""
_MOST_DELETIONS: Final = 5
"""Transactions that delete changes after one offset flush."""


class SqliteCapture:
    """Captures the changes of a database file (a TaskCapture)."""

    def __init__(self, settings: SqliteConfig, offset: Mapping[str, Any] | None) -> None:
        self._settings = settings
        self._stored: StoredOffset | None = parse_offset(offset) if offset else None
        self._filters = Filters(settings.capture)
        self.sessions = DatabaseFile(settings)
        self._extras = OffsetExtras()
        contracts = SchemaContracts(settings.contracts)
        loaded = parse_contracts((offset or {}).get(CONTRACTS))
        contracts.load(loaded, lambda text: self._extras.set_offset_extras(contracts, {CONTRACTS: text}))
        builder = EventBuilder(settings, sluice_version())
        self._snapshot = SnapshotSession(settings, self._filters, contracts, builder, self._extras)
        if self._stored is not None:
            self._snapshot.load(self._stored.extras)
        self.signals = SqliteSignals(settings, self._extras, self._snapshot, self._request_snapshot)
        self._emitter = ChangeEmitter(
            settings,
            self._filters,
            contracts,
            builder,
            self._extras,
            self._on_mark,
            self.signals.handle_row,
            self._snapshot.reads_later,
        )
        self._installation = Installation(settings.capture_name, settings.topic_prefix, self._filters)
        self._reader = ChangeReader(self._installation.names, settings.max_batch, settings.max_batch_bytes)
        self._tracker: OffsetTracker[str] = OffsetTracker(
            source_partition(settings.topic_prefix), lambda given, server: given
        )  # fmt: skip
        self._heartbeat = Heartbeat(
            settings.heartbeat, settings.topic_prefix, lambda sql: _run(self.sessions.writer(), sql)
        )  # fmt: skip
        self._pace = ReadPace()
        self.state = CaptureState.STARTING
        self._captures = Captures({}, {})
        self._is_open = False
        self._is_positioned = False
        """Whether the position is one in the change table."""
        self._is_fresh = False
        """Whether a snapshot begins, before which nothing is streamed."""
        self._as_of_start = False
        self._schema_version = 0
        self._end = StreamPosition(0, 0)
        """The newest change, as of the last read."""
        self._deadline = ReadDeadline(None)
        self._journal_mode = ""
        self._is_full = False
        self._warned_of_lag = False

    # --- what the task calls --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Opens the file, and checks the tables. Raises ConfigError."""
        self._require_tables(self.sessions.reader())

    def read(self) -> Sequence[SourceRecord]:
        """Returns the next records; opens the file first if necessary, and waits for changes a short time."""
        if self.state is CaptureState.DONE:
            self.sessions.interrupt.wait(self._settings.poll_interval_s)
            return ()
        self.sessions.check_file()
        connection = self.sessions.reader()
        if not self._is_open:
            self._open(connection)
            return ()
        self.signals.advance()
        records = self._read(connection)
        self._polled(records)
        return records

    @property
    def has_more(self) -> bool:
        return self._is_full or (self.state is CaptureState.SNAPSHOT and self._snapshot.next_kind is not None)

    def take_records(self) -> Sequence[SourceRecord]:
        """Returns the records that were read before an error."""
        self._polled(records := self._emitter.take_records())
        return records

    def _polled(self, records: Sequence[SourceRecord]) -> None:
        latest = None
        if records:
            # Looking at one of these records would create all of them.
            latest = (records if isinstance(records, LazyRecords) else records[-1]).source_offset or {}
        self._tracker.polled(latest, self._position_offset() if self._is_open else None)

    def _position_offset(self) -> dict[str, Any]:
        return {**self._emitter.position.members(), **self._extras.offset_extras}

    def is_loaded(self) -> bool:
        return self._is_open and self._snapshot.is_completed

    def update_offsets(self, offsets: OffsetPairs) -> OffsetPairs:
        return self._tracker.update_offsets(offsets)

    def offsets_stored(self, offsets: OffsetPairs) -> bool:
        """Offsets are durable. Deletes changes, unless a lock keeps it from that: the next call does. Returns whether it has."""
        if not self._tracker.offsets_stored(offsets) or not self._is_positioned:
            return False
        if self.sessions.is_reading and self._journal_mode != "wal":
            return False  # it would wait for the connector's own transaction
        stored = max((int(offset.get("seq") or 0) for _, offset in offsets), default=0)
        try:
            for _ in range(_MOST_DELETIONS):
                if not self._installation.delete_changes(self.sessions.writer(), stored):
                    break
        except RetriableError as e:
            log.info("cannot delete changes now: %s", e.message)
            return False
        return True

    def progress(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "phase": self.state.value,
            "events": self._emitter.events,
            "seq": self._emitter.position.sequence,
        }
        if self._snapshot.progress is not None:
            found |= self._snapshot.progress.details()
        if self._is_positioned:
            found["lag_rows"] = max(0, self._end.sequence - self._emitter.position.sequence)
        return found

    def disconnect(self) -> None:
        """Closes the connections. The position remains."""
        self._is_open = False
        self.sessions.close()

    def drop(self) -> None:
        """Drops triggers and tables. Problems are logged."""
        try:
            self._installation.uninstall(self.sessions.writer())
        except ConnectError as e:
            log.warning("cannot drop the triggers (capture.drop.on.stop): %s", e.message)
        finally:
            self.sessions.close()

    # --- start ----------------------------------------------------------------------------------------------------------------

    def _require_tables(self, connection: SqliteConnection) -> list[CapturedTable]:
        settings = self._settings
        tables = read_captured_tables(connection, self._filters)
        if not tables and settings.capture.table_include:
            listed = ",".join(settings.capture.table_include)
            raise ConfigError.invalid(
                "table.include.list", listed, f"{connection.path} has no such table; tables are {MAIN}.<name>"
            )  # fmt: skip
        check_collection_count(len(tables), settings.tables_max, settings.tables_limit_action)
        check_table_topics([(table.schema, table.name) for table in tables], settings.topic_naming)
        return tables

    def _open(self, connection: SqliteConnection) -> None:
        """Decides by position and database how to start, and starts it."""
        settings = self._settings
        self._journal_mode = str(connection.value("PRAGMA journal_mode"))
        tables = self._require_tables(connection)
        if settings.snapshot.mode == "initial_only":
            self._open_without_triggers(connection, tables)
        else:
            self._open_stream(connection)
        self._is_open = True

    def _open_without_triggers(self, connection: SqliteConnection, tables: Sequence[CapturedTable]) -> None:
        captures = {i: TableCapture(i, table, stored_columns(table, self._filters)) for i, table in enumerate(tables, 1)}
        self._captures = Captures(captures, {capture.table.name: capture for capture in captures.values()})
        self._schema_version = connection.schema_version()
        if self._stored is None:
            self._snapshot.start_initial(connection, tables, is_new=True)
        else:
            self._snapshot.resume(connection, self._captures.current)
        self.state = CaptureState.DONE if self._snapshot.is_completed else CaptureState.SNAPSHOT

    def _open_stream(self, connection: SqliteConnection) -> None:
        mode, installation = self._settings.snapshot.mode, self._installation
        known = self._find_position(connection)
        wants_snapshot = known is None or (mode == "always" and not self._is_positioned)
        if known is None:
            if installation.database_id(connection) is None:
                installation.install(self.sessions.writer())
                self._is_fresh = True
            # An earlier start may have emitted rows without storing an offset: their changes since then are emitted, too.
            known = self._reader.start(connection)
        installation.update(self.sessions.writer(), known.sequence)
        self._extras.set_offset_extras(self, {DATABASE_ID: installation.database_id(connection)})
        self._refresh(connection)
        self._emitter.position = known
        if not wants_snapshot:
            self._snapshot.resume(connection, self._captures.current)
        elif mode == "no_data":
            self._snapshot.skip_initial()
        else:
            captured = [capture.table for capture in self._captures.current.values()]
            self._snapshot.start_initial(connection, captured, is_new=self._is_fresh)
        self._is_positioned = True
        self._stored = parse_offset(self._position_offset())
        self._emitter.forget_candidates()
        with connection.reading():
            self._emitter.remember(self._reader.look_back(connection, known))
        self.state = CaptureState.STREAMING if self._snapshot.next_kind is None else CaptureState.SNAPSHOT

    def _find_position(self, connection: SqliteConnection) -> StreamPosition | None:
        """The position to continue from; None to start over. Raises DatabaseReplacedError if the database does not have it."""
        stored, database_id = self._stored, self._installation.database_id(connection)
        position = self._emitter.position if self._is_positioned else stored and stored.position
        if not position or not position.sequence or stored is None:
            return None
        try:
            if database_id is None:
                raise DatabaseReplacedError(
                    f"{connection.path} has no table {self._installation.names.changes}, although an offset is stored: the file "
                    "was replaced, or somebody has dropped the connector's tables. Changes are missing; set snapshot.mode="
                    "when_needed to take a new snapshot, or delete the connector's offsets"
                )
            if database_id != stored.database_id:
                raise DatabaseReplacedError(
                    f"{connection.path} is another database than that of the stored offset ({database_id}, not "
                    f"{stored.database_id}): the file was replaced. Set snapshot.mode=when_needed to take a snapshot of the new "
                    "one, or delete the connector's offsets"
                )
            self._reader.check(connection, position)
        except DatabaseReplacedError as e:
            if self._settings.snapshot.mode not in ("when_needed", "always"):
                raise
            log.warning("%s; taking a new snapshot", e.message)
            self._is_positioned = False
            return None
        return position

    def _refresh(self, connection: SqliteConnection) -> None:
        """Reads the structures that changes have, as of one version of the schema."""
        with connection.reading():
            self._schema_version = connection.schema_version()
            self._captures = self._installation.read_captures(connection)
            self._end = self._reader.end(connection)
        self._emitter.set_captures(self._captures.by_id)

    def _follow_schema(self) -> None:
        """Makes the triggers agree with a new schema."""
        connection = self.sessions.reader()
        self._installation.update(self.sessions.writer(), self._emitter.position.sequence)
        self._refresh(connection)
        check_table_topics([(MAIN, name) for name in self._captures.current], self._settings.topic_naming)

    # --- reading --------------------------------------------------------------------------------------------------------------

    def _read(self, connection: SqliteConnection) -> Sequence[SourceRecord]:
        kind = self._snapshot.next_kind
        if connection.in_transaction:
            return self._read_in_transaction(connection)
        if kind is None:
            return self._stream(connection)
        self._deadline = ReadDeadline(self._settings.snapshot.transaction_s)
        connection.begin_read()
        try:
            if not self._begin(connection):
                return ()
        except BaseException:
            connection.end_read()
            raise
        return self._read_in_transaction(connection)

    def _begin(self, connection: SqliteConnection) -> bool:
        """Begins a transaction of a snapshot. Returns False if the schema has changed: then the triggers come first."""
        if connection.schema_version() != self._schema_version:
            connection.end_read()
            if self._is_positioned:
                self._follow_schema()
            else:
                self._is_open = False
            return False
        if self._is_positioned:
            self._end = self._reader.end(connection)
            if self._is_fresh:
                self._emitter.position = self._end  # the rows contain all changes
            else:
                self._reader.check(connection, self._emitter.position)
        elif self._is_fresh or not self._emitter.position.ts_ms:
            self._emitter.position = self._end = StreamPosition(0, time.time_ns() // 1_000_000)
        self._as_of_start = self._is_fresh or not self._is_positioned
        self._is_fresh = False
        return True

    def _read_in_transaction(self, connection: SqliteConnection) -> Sequence[SourceRecord]:
        """Reads changes up to what the transaction sees, then rows."""
        emitter, kind = self._emitter, self._snapshot.next_kind
        self.state = CaptureState.SNAPSHOT
        if emitter.position.sequence < self._end.sequence:
            emitter.process(self._reader.read(connection, emitter.position))
        if emitter.position.sequence < self._end.sequence:
            self.state = CaptureState.CATCHING_UP
        elif kind is not None:
            # In the call that has caught up, so that a busy writer does not keep the snapshot from reading.
            current, is_as_of_start = self._captures.current, self._as_of_start
            self._snapshot.read(connection, current, emitter.position, out=emitter.out, is_as_of_start=is_as_of_start)
        next_kind = self._snapshot.next_kind
        if kind is not JobKind.INCREMENTAL and next_kind is kind and self._keeps_transactions and not self._deadline.is_over:
            return emitter.take_records()
        # In other journal modes, writers wait for readers, and the next read may come late.
        connection.end_read()
        if next_kind is None:
            is_initial_only = self._settings.snapshot.mode == "initial_only"
            self.state = CaptureState.DONE if is_initial_only else CaptureState.SNAPSHOT_COMPLETED
        return emitter.take_records()

    @property
    def _keeps_transactions(self) -> bool:
        """Whether a transaction of a snapshot may last. Without triggers, nothing else makes its rows consistent."""
        return self._journal_mode == "wal" or not self._is_positioned

    def _stream(self, connection: SqliteConnection) -> Sequence[SourceRecord]:
        self.state = CaptureState.STREAMING
        if (delay_s := self._pace.delay_s()) > 0:
            self.sessions.interrupt.wait(delay_s)
        seen = connection.data_version()
        if not self._read_changes(connection) and not self._emitter.out:
            self._wait_for_commit(connection, seen)
            self._read_changes(connection)
        records = self._emitter.take_records()
        self._pace.start(kinds=records.count_kinds(), is_full=self._is_full)
        if self._heartbeat.is_due:
            records.append(self._heartbeat.beat(self._position_offset()))
        self._warn_of_lag()
        return records

    def _read_changes(self, connection: SqliteConnection) -> bool:
        """Reads the next changes. Returns whether there were any, or the schema has changed."""
        with connection.reading():
            is_current = connection.schema_version() == self._schema_version
            if is_current:
                self._end = self._reader.end(connection)
                self._reader.check(connection, self._emitter.position)
                entries = self._reader.read(connection, self._emitter.position)
        if not is_current:
            self._follow_schema()
            return True
        self._emitter.process(entries)
        self._is_full = self._emitter.position.sequence < self._end.sequence
        return bool(entries)

    def _wait_for_commit(self, connection: SqliteConnection, seen: int) -> None:
        """Waits until another connection has committed something, at most for a poll."""
        end = time.monotonic() + self._heartbeat.limit_wait_s(self._settings.poll_interval_s)
        wait_s = _SHORTEST_WAIT_S
        while (remaining_s := end - time.monotonic()) > 0:
            if self.sessions.interrupt.wait(min(wait_s, remaining_s)) or connection.data_version() != seen:
                return
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def _warn_of_lag(self) -> None:
        most, lag = self._settings.lag_warn_rows, self._end.sequence - self._emitter.position.sequence
        if most and lag > most and not self._warned_of_lag:
            size = os.path.getsize(self._settings.file)
            log.warning("%d changes wait in the change table (changes.lag.warn.rows=%d); the file has %d bytes", lag, most, size)
        self._warned_of_lag = bool(most) and lag > most

    # --- marks and signals ----------------------------------------------------------------------------------------------------

    def _on_mark(self, operation: Operation, capture: TableCapture) -> None:
        table = capture.table
        if operation is Operation.LOSS and self._settings.loss_mode == "fail":
            raise TriggersLostError(
                f"table {table} was without triggers for some time, because it was created again or somebody dropped them; "
                "changes in that time are unknown. Set capture.loss.mode=reread to emit its rows again (rows that were deleted "
                "in that time remain in Kafka), or truncate to emit a truncate event first"
            )
        if operation is Operation.LOSS:
            self._snapshot.add(table.name, JobKind.INCREMENTAL)
        elif self._settings.incremental.backfill != BACKFILL_NONE:
            self._snapshot.add_new_table(table.name)

    def _request_snapshot(self, request: SnapshotRequest) -> None:
        self._snapshot.request(request, self._captures.current)


def _run(connection: SqliteConnection, sql: str) -> None:
    try:
        connection.execute(sql, what="run heartbeat.action.query")
    except ConnectionLostError:
        log.info("heartbeat.action.query has to wait: the database is locked")
