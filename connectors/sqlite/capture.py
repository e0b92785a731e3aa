"""Runs snapshot and stream: installs triggers, reads changes and rows, and notices what happens to the database."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from connect.errors import ConfigError, ConnectError
from connect.record import SourceRecord
from connect.version import sluice_version
from connectors.cdc.config.signal_keys import BACKFILL_NONE
from connectors.cdc.incremental.notifications import Notifier
from connectors.cdc.incremental.requests import SnapshotRequest
from connectors.cdc.offsets import CONTRACTS, source_partition
from connectors.cdc.schema.checks import check_collection_count, check_table_topics
from connectors.cdc.schema.contracts import SchemaContracts, parse_contracts
from connectors.cdc.schema.filters import Filters
from connectors.cdc.states import CaptureState
from connectors.cdc.streaming.offset_extras import OffsetExtras
from connectors.cdc.streaming.offset_tracker import OffsetPairs, StoredOffsetTracker
from connectors.sqlite.config import SqliteConfig
from connectors.sqlite.connection import SqliteConnection
from connectors.sqlite.errors import DatabaseReplacedError, TriggersLostError
from connectors.sqlite.offsets import DATABASE_ID, SequencePosition, SqliteOffset, parse_offset
from connectors.sqlite.schema.catalog import MAIN, Captures, SqliteTable, TableCapture, read_captured_tables
from connectors.sqlite.sessions import DatabaseFile
from connectors.sqlite.signals import SqliteSignals
from connectors.sqlite.snapshot.jobs import JobKind
from connectors.sqlite.snapshot.reports import SnapshotReports
from connectors.sqlite.snapshot.session import ReadDeadline, SqliteSnapshot
from connectors.sqlite.streaming.emitter import ChangeEmitter
from connectors.sqlite.streaming.events import EventBuilder
from connectors.sqlite.streaming.session import ChangeStreamSession
from connectors.sqlite.triggers.ddl import ChangeOperation, stored_columns
from connectors.sqlite.triggers.deletion import ChangeDeletion
from connectors.sqlite.triggers.installation import Installation

log = logging.getLogger(__name__)


class SqliteCapture:
    """Captures the changes of a database file (a TaskCapture)."""

    def __init__(self, settings: SqliteConfig, offset: Mapping[str, Any] | None) -> None:
        self._settings = settings
        self._stored: SqliteOffset | None = parse_offset(offset) if offset else None
        self._filters = Filters(settings.capture)
        self.sessions = DatabaseFile(settings)
        self._extras = extras = OffsetExtras()
        contracts = SchemaContracts(settings.contracts)
        loaded = parse_contracts((offset or {}).get(CONTRACTS))
        contracts.load(loaded, lambda text: extras.set_offset_extras(contracts, {CONTRACTS: text}))
        builder = EventBuilder(settings, sluice_version())
        reports = SnapshotReports(Notifier(settings.notifications, settings.topic_prefix))
        self._snapshot = snapshot = SqliteSnapshot(settings, self._filters, contracts, builder, extras, reports)
        if self._stored is not None:
            snapshot.load(self._stored.extras)
        self.signals = SqliteSignals(settings, extras, snapshot, self._request_snapshot)
        emitter = ChangeEmitter(
            settings,
            self._filters,
            contracts,
            builder,
            extras,
            self._on_mark,
            self.signals.handle_row,
            snapshot.reads_later,
        )
        self._installation = Installation(settings.capture_name, settings.topic_prefix, self._filters)
        self._deletion = ChangeDeletion(self.sessions, self._installation, settings.max_batch)
        self._stream = ChangeStreamSession(settings, self.sessions, self._installation, emitter, extras)
        self._tracker: StoredOffsetTracker[str] = StoredOffsetTracker(
            source_partition(settings.topic_prefix), lambda given, server: given
        )
        self.state = CaptureState.STARTING
        self._is_open = False
        self._is_fresh = False
        """Whether a snapshot begins, before which nothing is streamed."""
        self._deadline = ReadDeadline(None)

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
        self._delete_changes()
        self.signals.advance()
        self._read(connection)
        self._add_notifications()
        return self.take_records()

    @property
    def has_more(self) -> bool:
        return self._stream.is_full or (self.state is CaptureState.SNAPSHOT and self._snapshot.next_kind is not None)

    def take_records(self) -> Sequence[SourceRecord]:
        """Returns the records that were read, also before an error."""
        records = self._stream.take_records()
        # Looking at one of these records would create all of them.
        latest = records.source_offset if records else None
        self._tracker.polled(latest, self._stream.position_offset() if self._is_open else None)
        return records

    def _add_notifications(self) -> None:
        notifier, stream = self._snapshot.reports.notifier, self._stream
        if notifier.has_records:
            # Everything up to the position is in the batch already.
            for record in notifier.take_records(stream.position_offset()):
                stream.out.append(record)

    def is_loaded(self) -> bool:
        return self._is_open and self._snapshot.is_completed

    def update_offsets(self, offsets: OffsetPairs) -> OffsetPairs:
        return self._tracker.update_offsets(offsets)

    def offsets_stored(self, offsets: OffsetPairs) -> bool:
        """Offsets are durable. Deletes changes, unless a lock keeps it from that: the next read does. Returns whether it has."""
        if not self._tracker.offsets_stored(offsets) or not self._stream.is_positioned or not self._is_open:
            return False
        self._deletion.offsets_stored(offsets)
        return self._delete_changes()

    def _delete_changes(self) -> bool:
        if self.sessions.is_reading and not self.sessions.is_wal:
            return False  # it would wait for the connector's own transaction
        return self._deletion.advance()

    def progress(self) -> dict[str, Any]:
        return {"phase": self.state.value, **self._stream.progress(), **self._snapshot.progress()}

    def disconnect(self) -> None:
        """Closes the connections. The position remains."""
        self._is_open = False
        self._snapshot.reports.closed()
        self.sessions.close()

    def drop(self) -> None:
        """Drops triggers and tables, after ``disconnect``. Problems are logged."""
        try:
            with contextlib.closing(self.sessions.open_uninterrupted()) as connection:
                self._installation.uninstall(connection)
        except ConnectError as e:
            log.warning("cannot drop the triggers (capture.drop.on.stop): %s", e.message)

    # --- start ----------------------------------------------------------------------------------------------------------------

    def _require_tables(self, connection: SqliteConnection) -> list[SqliteTable]:
        settings = self._settings
        tables = read_captured_tables(connection, self._filters)
        if not tables and settings.capture.table_include:
            listed = ",".join(settings.capture.table_include)
            reason = f"{connection.path} has no such table; tables are {MAIN}.<name>"
            raise ConfigError.invalid("table.include.list", listed, reason)
        check_collection_count(len(tables), settings.tables_max, settings.tables_limit_action)
        check_table_topics([(table.schema, table.name) for table in tables], settings.topic_naming)
        return tables

    def _open(self, connection: SqliteConnection) -> None:
        """Decides by position and database how to start, and starts it."""
        tables = self._require_tables(connection)
        if self._settings.snapshot.mode == "initial_only":
            self._open_without_triggers(connection, tables)
        else:
            self._open_stream(connection)
        self._is_open = True

    def _open_without_triggers(self, connection: SqliteConnection, tables: Sequence[SqliteTable]) -> None:
        captures = {i: TableCapture(i, table, stored_columns(table, self._filters)) for i, table in enumerate(tables, 1)}
        by_name = {capture.table.name: capture for capture in captures.values()}
        self._stream.start_without_triggers(connection, Captures(captures, by_name))
        if not self._snapshot.is_completed:
            # From the beginning, so that all rows are of one point in time, and of this file: nothing tells whether it is the one
            # of the stored offset.
            self._snapshot.start_initial(connection, tables, is_new=self._stored is None)
        self.state = CaptureState.DONE if self._snapshot.is_completed else CaptureState.SNAPSHOT

    def _open_stream(self, connection: SqliteConnection) -> None:
        mode, installation, stream = self._settings.snapshot.mode, self._installation, self._stream
        is_reconnect = stream.is_positioned
        known = self._find_position(connection)
        wants_snapshot = known is None or (mode == "always" and not is_reconnect)
        if installation.database_id(connection) is None:
            installation.install(self.sessions.writer())
            self._is_fresh = True
        database_id = installation.database_id(connection)
        self._extras.set_offset_extras(self, {DATABASE_ID: database_id})
        self._deletion.start(database_id)
        # An earlier start may have emitted rows without storing an offset: their changes since then are emitted, too.
        stream.start(connection, known)
        if not wants_snapshot:
            self._snapshot.resume(stream.captures.current)
            if self._snapshot.is_completed and not is_reconnect:
                self._snapshot.reports.notifier.snapshot_skipped()
        elif mode == "no_data":
            self._snapshot.skip_initial()
        else:
            captured = [capture.table for capture in stream.captures.current.values()]
            self._snapshot.start_initial(connection, captured, is_new=self._is_fresh)
        self._stored = parse_offset(stream.position_offset())
        self.state = CaptureState.STREAMING if self._snapshot.next_kind is None else CaptureState.SNAPSHOT
        self._is_fresh = self._is_fresh and self.state is CaptureState.SNAPSHOT

    def _find_position(self, connection: SqliteConnection) -> SequencePosition | None:
        """The position to continue from; None to start over. Raises DatabaseReplacedError if the database does not have it."""
        stored, database_id = self._stored, self._installation.database_id(connection)
        if stored is None:
            return None
        position = self._stream.position if self._stream.is_positioned else stored.position
        if position is None:
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
            self._stream.check(connection, position)
        except DatabaseReplacedError as e:
            if self._settings.snapshot.mode not in ("when_needed", "always"):
                raise
            log.warning("%s; taking a new snapshot", e.message)
            self._stream.forget_position()
            return None
        return position

    # --- reading --------------------------------------------------------------------------------------------------------------

    def _read(self, connection: SqliteConnection) -> None:
        if not connection.in_transaction:
            if self._snapshot.next_kind is None:
                self.state = CaptureState.STREAMING
                self._stream.read(connection)
                return
            connection.begin_read()
            try:
                if not self._begin(connection):
                    return
            except BaseException:
                connection.end_read()
                raise
        self._read_in_transaction(connection)

    def _begin(self, connection: SqliteConnection) -> bool:
        """Begins a transaction of a snapshot. Returns False if the schema has changed: then the triggers come first."""
        stream = self._stream
        if not stream.is_current(connection):
            connection.end_read()
            self._is_fresh = False  # changes of tables that were created since then must be read
            if stream.is_positioned:
                stream.follow_schema()
            else:
                self._is_open = False
            return False
        is_as_of_start = self._is_fresh or not stream.is_positioned
        stream.begin(connection, skips_changes=self._is_fresh)
        self._is_fresh = False
        self._deadline = ReadDeadline(self._settings.snapshot.transaction_s, is_as_of_start=is_as_of_start)
        return True

    def _read_in_transaction(self, connection: SqliteConnection) -> None:
        """Reads changes up to what the transaction sees, then rows."""
        stream, snapshot = self._stream, self._snapshot
        self.state = CaptureState.SNAPSHOT
        is_caught_up = stream.catch_up(connection)
        kind = snapshot.next_kind  # a signal among the changes may have ended or paused it
        if not is_caught_up:
            self.state = CaptureState.CATCHING_UP
        elif kind is not None:
            # In the call that has caught up, so that a busy writer does not keep the snapshot from reading.
            is_as_of_start = self._deadline.is_as_of_start
            snapshot.read(connection, stream.captures.current, stream.position, out=stream.out, is_as_of_start=is_as_of_start)
        if kind not in (None, JobKind.INCREMENTAL) and snapshot.next_kind is kind and self._keeps_transactions:
            return
        connection.end_read()
        if snapshot.next_kind is None:
            is_initial_only = self._settings.snapshot.mode == "initial_only"
            self.state = CaptureState.DONE if is_initial_only else CaptureState.SNAPSHOT_COMPLETED

    @property
    def _keeps_transactions(self) -> bool:
        """Whether a transaction of a snapshot may last. In other journal modes than WAL, writers wait for readers, and the next
        read may come late; but without triggers, nothing else makes the rows consistent."""
        return not self._deadline.is_over and (self.sessions.is_wal or not self._stream.is_positioned)

    # --- marks and signals ----------------------------------------------------------------------------------------------------

    def _on_mark(self, operation: ChangeOperation, capture: TableCapture) -> None:
        table = capture.table
        if operation is ChangeOperation.LOSS and self._settings.loss_mode == "fail":
            raise TriggersLostError(
                f"table {table} was without triggers for some time, because it was created again or somebody dropped them; "
                "changes in that time are unknown. Set capture.loss.mode=reread to emit its rows again (rows that were deleted "
                "in that time remain in Kafka), or truncate to emit a truncate event first"
            )
        if operation is ChangeOperation.LOSS:
            self._snapshot.add(table.name, JobKind.INCREMENTAL)
        elif self._settings.incremental.backfill != BACKFILL_NONE:
            self._snapshot.add_new_table(table.name)

    def _request_snapshot(self, request: SnapshotRequest) -> None:
        self._snapshot.request(request, self._stream.captures.current)
