"""Runs snapshot and stream: connects, starts what the plan says, and moves from one state to the next."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from connect.pending_work import PendingWork
from connect.record import SourceRecord
from connect.version import sluice_version
from connectors.cdc.capture import LogCapture
from connectors.cdc.errors import ConnectionLostError
from connectors.cdc.offsets import CONTRACTS, source_partition
from connectors.cdc.schema.contracts import parse_contracts
from connectors.cdc.schema.filters import Filters
from connectors.cdc.states import CaptureState
from connectors.cdc.streaming.offset_tracker import OffsetPairs
from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import Connection
from connectors.postgres.monitoring.monitor import MonitoredTask, SourceMonitor
from connectors.postgres.offsets import PUBLICATION, SNAPSHOT_STATE, StoredOffset, StreamPosition, format_lsn
from connectors.postgres.schema.catalog import CapturedTable
from connectors.postgres.schema.checks import check_keys, check_table_count, check_topics
from connectors.postgres.sessions import DatabaseSessions
from connectors.postgres.signals.session import create_signals
from connectors.postgres.snapshot.session import SnapshotSession
from connectors.postgres.startup import (
    StartAction,
    StartPlan,
    TaskPosition,
    confirmable_at_start,
    find_late_tables,
    find_publication_loss,
    needs_snapshot,
    plan_after_publication_loss,
    plan_start,
)
from connectors.postgres.streaming import publications, slots, standby
from connectors.postgres.streaming.captured_tables import CapturedTables
from connectors.postgres.streaming.flush_lsn import FlushTracker
from connectors.postgres.streaming.publication_state import parse_state
from connectors.postgres.streaming.server import ServerState, identify_system, read_ancestors
from connectors.postgres.streaming.session import CatchUpComplete, StreamingSession

log = logging.getLogger(__name__)


class ChangeCapture(LogCapture):
    """Captures the changes of a PostgreSQL database."""

    sessions: DatabaseSessions
    _settings: PostgresConfig
    _stream: StreamingSession
    _offsets: FlushTracker
    _snapshot: SnapshotSession | None

    def __init__(self, settings: PostgresConfig, stored: StoredOffset | None, pending: PendingWork) -> None:
        extras = stored.extras if stored is not None else {}
        contracts = parse_contracts(extras.get(CONTRACTS))
        self._settings = settings
        self._stored = stored
        self._filters = Filters(settings.capture)
        self.sessions = DatabaseSessions(settings)
        self._tables = CapturedTables(settings, self._filters, self.sessions.catalog)
        self._offsets = FlushTracker(source_partition(settings.topic_prefix), confirms_idle=settings.slot.confirms_idle)
        version = sluice_version()
        self.signals = create_signals(settings, self._filters, self._tables, self.sessions, version)
        self.signals.load(extras)
        observers = self.signals.observers
        self._tables.contracts.load(contracts, lambda text: observers.set_offset_extras(self._tables, {CONTRACTS: text}))
        stream = StreamingSession(settings, self._tables, self.sessions, self._offsets, version, observers)
        self._stream = stream
        self._publication = publications.PublicationUpdater(settings.slot, self._filters, self.sessions.writer)
        watched = MonitoredTask(stream.read_position, self._tables.oids, stream.end_stream, self._is_streaming, pending)
        self.monitor = SourceMonitor(settings, watched, parse_state(extras.get(PUBLICATION)))
        self._snapshot: SnapshotSession | None = None
        self._snapshot_done = False
        self._snapshot_state = stored.snapshot_state if stored is not None and settings.snapshot.mode != "always" else None
        """What an interrupted snapshot has completed; None if the next one starts over."""
        self.state = CaptureState.STARTING
        self.uses_slot = False
        """Whether the task has looked for its slot."""

    # --- what the task calls --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Connects and checks the server and the filters. Raises ConfigError."""
        sql = self.sessions.catalog()
        if self._settings.snapshot.mode != "initial_only":
            slots.check_server(sql)
        check_table_count(len(self._captured_tables()), self._settings)

    def read(self) -> Sequence[SourceRecord]:
        """Returns the next records; connects first if necessary, and waits for changes a short time."""
        self.monitor.raise_failure()
        # Noted between reads: an offset with a table that joined also has the request to read its rows.
        if (publication := self.monitor.publication.text) is not None:
            self.signals.observers.set_offset_extras(self.monitor, {PUBLICATION: publication})
        return super().read()

    def _note_offset(self, offset: Mapping[str, Any]) -> None:
        self._snapshot_state = offset.get(SNAPSHOT_STATE)

    @property
    def _is_snapshot_done(self) -> bool:
        return self._snapshot_done

    def _complete_snapshot(self) -> None:
        self._snapshot_done = True

    def _continue_behind(self, snapshot: SnapshotSession) -> None:
        self._stream.skip_to(snapshot.lsn)

    def _is_streaming(self) -> bool:
        """Whether the stream's position says everything: no snapshot is missing."""
        states = CaptureState.STREAMING, CaptureState.RECONNECTING, CaptureState.WAITING_FOR_SLOT
        return self.state in states and (self._snapshot_done or not self._wants_snapshot())

    def offsets_stored(self, offsets: OffsetPairs) -> bool:
        """Offsets are durable. Returns whether the server may discard more WAL, which it is told."""
        if not self._offsets.offsets_stored(offsets):
            return False
        with contextlib.suppress(ConnectionLostError):  # the next read reports it
            self._stream.confirm()
        return True

    def progress(self) -> dict[str, Any]:
        found = {**self.snapshot_progress(), **self._stream.progress(self.monitor.wal_end)}
        return {"phase": self.state.value, **found, **self.monitor.progress(), **self.signals.progress()}

    def disconnect(self) -> None:
        self.monitor.task_disconnected()
        super().disconnect()

    # --- start ----------------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Decides by position and server state how to start, and starts it."""
        settings = self._settings
        if settings.snapshot.mode == "initial_only":
            if self._wants_snapshot():
                self._start_snapshot(None)
                self.state = CaptureState.SNAPSHOT
            else:
                self.state = CaptureState.DONE
            return
        sql = self.sessions.catalog()
        is_reconnect = self._stream.position() is not None
        replication = self.sessions.open(replication=True)
        try:
            server = identify_system(replication)
            known = self._known_position()
            resumes = self._snapshot_state is not None or not self._wants_snapshot()
            publication = self.monitor.publication
            publication.read(sql)
            loss = find_publication_loss(settings, publication, server, known, resumes=resumes)
            late = find_late_tables(settings, publication, sql, self._filters)
            added = standby.prepare_publication(self.sessions, settings, self._filters, self._captured_tables)
            tables = self._captured_tables()
            check_keys(tables, settings, self._filters)
            check_topics(tables, settings)
            self._start(sql, replication, server, loss)
        except BaseException:
            replication.close()
            raise
        self.monitor.start(tables, sql)
        if self.state is CaptureState.STREAMING and (is_reconnect or self._stored is not None):
            self.signals.backfill(late, at_start=False)
            self.signals.backfill(added, at_start=not is_reconnect)

    def _start(self, sql: Connection, replication: Connection, server: ServerState, publication_loss: str | None) -> None:
        settings = self._settings
        self.uses_slot = True
        known = self._known_position()
        checked = known if settings.slot.mismatch_strategy != "no_validation" else None
        ancestors = read_ancestors(replication, None if checked is None else checked.server, server.timeline)
        slot = slots.read_slot(sql, settings.slot.name)
        if publication_loss is not None:
            # Since 18, the server skips changes whose publication did not exist; before, it fails at them.
            self._snapshot_state = None
            if self._stored is not None:  # after a lost connection, the snapshot is still required
                self._stored = replace(self._stored, snapshot_completed=False)
            plan = plan_after_publication_loss(publication_loss, known, slot, is_readable=sql.server_version >= 180000)
        else:
            plan = plan_start(settings, known, slot, server, ancestors, wants_snapshot=self._wants_snapshot())
        if plan.warning:
            log.warning("%s", plan.warning)
        if plan.drop_slot:
            slots.drop_slot(sql, settings.slot.name)
            slot = None
        if slot is not None and settings.slot.failover and not slot.is_failover and slots.supports_failover(sql):
            slots.enable_failover(replication, settings.slot.name)
        self._set_position(plan, known, slot, server)
        match plan.action:
            case StartAction.SNAPSHOT:
                self._snapshot_done = False
                self._create_slot_with_snapshot(replication, server)
            case StartAction.CATCH_UP:
                self._snapshot_done = False
                self._catch_up(replication)
            case StartAction.CREATE_SLOT:
                created = standby.create_slot(settings, replication, settings.slot.name, export=False)
                self._offsets.start(server.timeline, created.consistent_lsn)
                self._stream.start_at_slot(created.consistent_lsn)
                self._start_stream(replication, CaptureState.STREAMING)
            case StartAction.STREAM if self.signals.blocking.is_requested:
                self._catch_up_for_signal(replication)
            case StartAction.STREAM:
                self._start_stream(replication, CaptureState.STREAMING)

    def _wants_snapshot(self) -> bool:
        stored = self._stored
        completed = None if stored is None else stored.snapshot_completed
        return not self._snapshot_done and needs_snapshot(self._settings.snapshot.mode, snapshot_completed=completed)

    def _known_position(self) -> TaskPosition | None:
        if (position := self._stream.position()) is not None and position.done_lsn:
            return TaskPosition(position, self._offsets.server)
        return TaskPosition(self._stored.position, self._stored.server) if self._stored is not None else None

    def _set_position(
        self, plan: StartPlan, known: TaskPosition | None, slot: slots.ReplicationSlot | None, server: ServerState
    ) -> None:
        """Sets where to stream from and which WAL the server may discard."""
        if slot is None or known is None or plan.position != known.position or slot.confirmed_lsn > known.position.done_lsn:
            self._snapshot_state = None  # the stream lacks changes of rows that the snapshot has completed
        tracked = self._offsets.confirmed_lsn if self._stream.position() is not None else None
        lsn = confirmable_at_start(self._settings, plan, known, slot, tracked)
        if plan.position is None:
            self._stored = None
            self.signals.load({})  # the snapshot reads all tables
            self._stream.start_at_slot(lsn)
        else:
            self._stream.continue_from(plan.position, self._stored)
        self._offsets.start(server.timeline, lsn)

    def _captured_tables(self) -> list[CapturedTable]:
        return publications.require_captured_tables(self.sessions.catalog(), self._settings, self._filters)

    def _start_snapshot(self, created: slots.CreatedSlot | None) -> SnapshotSession:
        snapshot = SnapshotSession(self._settings, self._filters, self._tables, self.sessions, sluice_version())
        try:
            snapshot.start(created, self._snapshot_state, self.signals.observers)
        except BaseException:
            snapshot.close()
            raise
        self._snapshot = snapshot
        return snapshot

    def _create_slot_with_snapshot(self, replication: Connection, server: ServerState) -> None:
        self.state = CaptureState.CREATING_SLOT
        slot = self._settings.slot
        created = standby.create_slot(self._settings, replication, slot.name)
        self._start_snapshot(created)
        replication.close()
        self._offsets.start(server.timeline, created.consistent_lsn)
        self._stream.continue_from(StreamPosition(created.consistent_lsn, created.consistent_lsn))
        self.state = CaptureState.SNAPSHOT

    def _catch_up(self, replication: Connection) -> None:
        """Streams from the existing slot up to the point of the snapshot."""
        self.state = CaptureState.CREATING_SLOT
        slot = self._settings.slot
        snapshot = self._start_snapshot(standby.create_snapshot_slot(self._settings, replication))
        replication.close()  # drops the temporary slot; the imported snapshot stays valid
        log.info("slot %s already exists; streaming from it up to %s before the snapshot", slot.name, format_lsn(snapshot.lsn))
        self._start_stream(self.sessions.open(replication=True), CaptureState.CATCHING_UP, snapshot.lsn)

    def _catch_up_for_signal(self, replication: Connection) -> None:
        """Streams up to the point of a snapshot that a signal has requested."""
        self.state = CaptureState.CREATING_SLOT
        snapshot = self.signals.blocking.start(standby.create_snapshot_slot(self._settings, replication))
        replication.close()
        state = CaptureState.STREAMING if snapshot is None else CaptureState.CATCHING_UP
        self._start_stream(self.sessions.open(replication=True), state, None if snapshot is None else snapshot.lsn)

    def _start_stream(self, connection: Connection, state: CaptureState, stop_lsn: int | None = None) -> None:
        requires_snapshot = stop_lsn is not None and self.signals.blocking.session is None
        self._stream.start(connection, stop_lsn, self._snapshot_state, requires_snapshot=requires_snapshot)
        self.state = state

    def _read_stream(self) -> Sequence[SourceRecord]:
        try:
            if self.state is CaptureState.STREAMING:
                self.signals.advance()
            self._stream.read()
        except CatchUpComplete:
            self._stream.disconnect()
            if (snapshot := self.signals.blocking.session or self._snapshot) is not None:
                self._continue_behind(snapshot)
                snapshot.restart_clock()
            self.state = CaptureState.SNAPSHOT
        if added := self._publication.update_if_due():
            self.signals.backfill(added, at_start=False)
            self.monitor.check_publication(self.sessions.catalog())
        records = self._stream.take_records()
        if self.state is CaptureState.STREAMING and self.signals.blocking.is_requested:
            self._stream.disconnect()
        return self.signals.add_notifications(records, self._stream.position_offset)
