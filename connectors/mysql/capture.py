"""Runs snapshot and stream: connects, starts what the plan says, and moves from one state to the next."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from connect.errors import ConfigError, DataError
from connect.record import SourceRecord
from connect.source import OwnedTopic, OwnedTopicSettings
from connect.version import sluice_version
from connectors.cdc.capture import LogCapture
from connectors.cdc.config.signal_keys import BACKFILL_ALL
from connectors.cdc.errors import PositionLostError
from connectors.cdc.offsets import CONTRACTS, source_partition
from connectors.cdc.schema.contracts import parse_contracts
from connectors.cdc.schema.filters import Filters
from connectors.cdc.states import CaptureState
from connectors.cdc.streaming.offset_tracker import OffsetPairs, StoredOffsetTracker
from connectors.mysql.config import MySqlConfig
from connectors.mysql.errors import MySqlServerError
from connectors.mysql.incremental.chunks import FollowedStream
from connectors.mysql.offsets import (
    SERVER_UUID,
    BinlogPosition,
    StoredBinlogOffset,
    stream_offset,
    with_server,
)
from connectors.mysql.schema.captured_tables import MySqlCapturedTables
from connectors.mysql.schema.history.ddl_selection import DdlSelection
from connectors.mysql.schema.history.history import SchemaHistory, open_store
from connectors.mysql.schema.tables import TableStructures
from connectors.mysql.server import ServerInfo, check_server, find_lost_position, read_server, resume_position
from connectors.mysql.sessions import MySqlSessions
from connectors.mysql.signals.backfill import CAPTURED, dump_lists, find_newly_captured
from connectors.mysql.signals.binlog_position import BinlogPositionSignal, PositionRequest, plan_move
from connectors.mysql.signals.session import create_mysql_signals
from connectors.mysql.snapshot.session import MySqlSnapshotSession
from connectors.mysql.startup import MySqlStart, plan_mysql_start
from connectors.mysql.streaming.change_events import BinlogEventBuilder
from connectors.mysql.streaming.observers import BinlogObservers
from connectors.mysql.streaming.session import BinlogStream, uses_gtids
from connectors.mysql.streaming.structure_changes import StructureChanges
from connectors.mysql.system_checks import check_on_server
from connectors.mysql.task_position import MySqlTaskPosition

log = logging.getLogger(__name__)


class MySqlCapture(LogCapture):
    """Captures the changes of the databases of a server."""

    sessions: MySqlSessions
    _settings: MySqlConfig
    _stream: BinlogStream
    _snapshot: MySqlSnapshotSession | None

    def __init__(
        self,
        settings: MySqlConfig,
        stored: StoredBinlogOffset | None,
        open_topic: Callable[[str, OwnedTopicSettings], OwnedTopic],
    ) -> None:
        """``open_topic`` is the task context's ``open_owned_topic``."""
        self._settings = settings
        self._position = MySqlTaskPosition(stored, reads_all_again=settings.snapshot.mode == "always")
        filters = Filters(settings.capture)
        self.sessions = MySqlSessions(settings)
        self._tables = MySqlCapturedTables(settings, filters)
        self.observers = BinlogObservers()
        self._load_contracts({} if stored is None else stored.extras)
        history = SchemaHistory(
            open_store(settings.history, open_topic),
            source_partition(settings.topic_prefix),
            settings.history,
            settings.binlog.source_filter,
        )
        selection = DdlSelection(settings.history, self._tables.captures, filters.captures_schema)
        self._structures = TableStructures(history, selection.is_stored)
        builder = BinlogEventBuilder(settings, sluice_version())
        self._changes = StructureChanges(settings, self._structures, self._tables, selection, builder, self.sessions.catalog)
        self._stream = BinlogStream(settings, self._tables, self._changes, self.sessions, builder, self.observers)
        self._server: ServerInfo | None = None  # that of the stream's position
        followed = FollowedStream(lambda: self._stream.tracker, lambda: self._server)
        self._moves = BinlogPositionSignal(self.observers, {} if stored is None else stored.extras)
        self.signals = create_mysql_signals(
            settings, self.observers, self._tables, self._structures, self.sessions, followed, self._moves, sluice_version()
        )
        self.signals.load({} if stored is None else stored.extras)
        self._offsets: StoredOffsetTracker[str] = StoredOffsetTracker(source_partition(settings.topic_prefix), with_server)
        self._snapshot: MySqlSnapshotSession | None = None
        self.state = CaptureState.STARTING

    def _load_contracts(self, extras: Mapping[str, Any]) -> None:
        contracts = parse_contracts(extras.get(CONTRACTS))
        observers, tables = self.observers, self._tables
        tables.contracts.load(contracts, lambda text: observers.set_offset_extras(tables, {CONTRACTS: text}))

    # --- what the task calls --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Connects and checks the server and the filters. Raises ConfigError."""
        check_on_server(self.sessions.catalog(), self._settings, self._tables.filters, is_new=False)

    def _note_offset(self, offset: Mapping[str, Any]) -> None:
        self._position.polled(offset)

    @property
    def _is_snapshot_done(self) -> bool:
        return self._position.snapshot_done

    def _complete_snapshot(self) -> None:
        self._position.snapshot_completed()

    def _continue_behind(self, snapshot: MySqlSnapshotSession) -> None:
        self._stream.skip_to(snapshot.position)

    def _is_streaming(self) -> bool:
        return self.state in (CaptureState.STREAMING, CaptureState.RECONNECTING) and not self._position.misses_snapshot

    def offsets_stored(self, offsets: OffsetPairs) -> bool:
        self._offsets.offsets_stored(offsets)
        return False  # the server keeps its log as long as it is configured to

    def progress(self) -> Mapping[str, Any]:
        return {"phase": self.state.value, **self.snapshot_progress(), **self._stream.progress(), **self.signals.progress()}

    def close(self) -> None:
        """Closes everything, for ever."""
        self.disconnect()
        self.signals.close_channels()
        self._structures.history.close()
        self.sessions.interrupt.close()

    # --- start ----------------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Decides by position and server state how to start, and starts it."""
        sql = self.sessions.catalog()
        server = read_server(sql)
        check_server(sql, server)
        self._structures.set_server(server)
        self._position.find_unstored_snapshot(self._structures.history, self._settings.snapshot.mode)
        known = self._position.known(self._stream.position, None if self._server is None else self._server.uuid)
        lost = None
        if known is not None:
            by_gtid = uses_gtids(server, known.position, self._settings)
            lost = find_lost_position(
                sql,
                server,
                known.position,
                by_gtid=by_gtid,
                server_uuid=known.server_uuid,
                reads_source=self._settings.binlog.source_filter,
            )
        knows_structure = known is not None and lost is None and self._knows_structure(known)
        plan = plan_mysql_start(
            self._mode(),
            snapshot_completed=None if known is None else known.snapshot_completed,
            lost=lost,
            knows_structure=knows_structure,
            history=self._settings.history,
        )
        if plan.warning:
            log.warning("%s", plan.warning)
        self._start(plan.action, server, known)
        # Not before: until the start succeeds, the position is one of the former server.
        self._continue_on(server)

    def _continue_on(self, server: ServerInfo) -> None:
        """Positions are those of this server from now on."""
        former, self._server = self._server, server
        if server.uuid is None:
            return
        if self._offsets.server is None:
            self._offsets.set_server(server.uuid)
        elif former is not None and former.uuid != server.uuid:
            # Offsets of records of the former server may be stored later. They do not have this member.
            self.observers.set_offset_extras(self._offsets, {SERVER_UUID: server.uuid})

    def _mode(self) -> str:
        """The snapshot mode as far as it still applies: always takes one snapshot per start of the task."""
        mode = self._settings.snapshot.mode
        return "initial" if self._position.snapshot_done and mode in ("always", "recovery") else mode

    def _knows_structure(self, known: StoredBinlogOffset) -> bool:
        """Recovers the structure at a position, unless it is known already. Returns whether there is any."""
        if self._position.structure_is_current:
            return True
        if self._settings.snapshot.mode == "recovery" and not self._position.snapshot_done:
            return self._structures.history.exists()
        count = self._structures.recover(known.extras)
        log.info(
            "recovered the structure of %d tables from %d records of the schema history", len(self._structures.tables), count
        )
        self._position.structure_is_current = count > 0
        return count > 0

    def _start(self, action: MySqlStart, server: ServerInfo, known: StoredBinlogOffset | None) -> None:
        match action:
            case MySqlStart.DONE:
                self.state = CaptureState.DONE
            case MySqlStart.SNAPSHOT | MySqlStart.STRUCTURE:
                self._start_over()
                self._structures.history.initialize_storage()
                snapshot = self._open_snapshot(server)
                if action is MySqlStart.SNAPSHOT:
                    snapshot.start()
                else:
                    snapshot.start_structure()
                # After a lost connection, the snapshot continues from here.
                self._stream.skip_to(snapshot.position)
                self._position.structure_is_current = True
                self.state = CaptureState.SNAPSHOT
            case MySqlStart.REBUILD:
                assert known is not None
                self._structures.history.initialize_storage()
                self._open_snapshot(server).start_structure(resume_position(known, server), known.extras)
                self._position.structure_is_current = True
                self.state = CaptureState.SNAPSHOT
            case MySqlStart.CATCH_UP:
                assert known is not None
                snapshot = self._open_snapshot(server)
                snapshot.start(self._position.snapshot_state, records_structure=False)
                self._start_stream(server, known, snapshot.position)
            case MySqlStart.STREAM:
                assert known is not None
                blocking = self.signals.blocking
                requested = blocking.start(server) if blocking.is_requested else None
                self._start_stream(server, known, None if requested is None else requested.position)
                self._backfill(known)

    def _backfill(self, known: StoredBinlogOffset) -> None:
        """Reads the rows of tables that a change of the configuration captures (``backfill.new.tables=all``)."""
        if self._settings.incremental.backfill == BACKFILL_ALL:
            capture, stored = self._settings.capture, {**known.extras, **self.observers.offset_extras}.get(CAPTURED)
            self.signals.backfill(find_newly_captured(stored, capture, self._structures.tables), at_start=True)
            self.observers.set_offset_extras(self._tables.filters, {CAPTURED: dump_lists(capture)})

    def _start_over(self) -> None:
        """Forgets the position: a snapshot replaces everything."""
        self._position.start_over()
        self._structures.tables.clear()
        self._structures.database_charsets.clear()
        self.signals.load({})  # the snapshot reads all tables

    def _start_stream(self, server: ServerInfo, known: StoredBinlogOffset, stop: BinlogPosition | None = None) -> None:
        position = resume_position(known, server)
        if self._position.stored is not None and self._stream.position is None:
            self._stream.restore_transaction(self._position.stored)
        self._require_snapshot(stop is not None and self.signals.blocking.session is None)
        self._stream.start(server, position, stop)
        self.state = CaptureState.STREAMING if stop is None else CaptureState.CATCHING_UP

    def _require_snapshot(self, required: bool) -> None:
        """Sets whether offsets of changes still require a snapshot, and from where on."""
        members = self._position.members_before_snapshot() if required else {}
        self.observers.set_offset_extras(self, members)

    def _open_snapshot(self, server: ServerInfo) -> MySqlSnapshotSession:
        observers = self.observers
        self._snapshot = MySqlSnapshotSession(
            self._settings,
            self._tables,
            self._structures,
            self.sessions,
            server,
            sluice_version(),
            lambda: observers.offset_extras,
        )
        return self._snapshot

    # --- snapshot and stream --------------------------------------------------------------------------------------------------

    def _read_stream(self) -> Sequence[SourceRecord]:
        try:
            if self.state is CaptureState.STREAMING:
                self.signals.advance()
                if (request := self._moves.pending) is not None and self._move(request):
                    return []
            self._stream.read()
        except PositionLostError as e:
            if self._settings.snapshot.mode != "when_needed" and not self._position.misses_snapshot:
                raise
            log.warning("%s; taking a new snapshot", e.message)
            records = self._stream.take_records()
            self._stream.forget()
            self._close_snapshot()
            self._start_over()
            self.state = CaptureState.STARTING
            return records
        records = self._stream.take_records()
        if self._stream.is_at_stop:
            snapshot = self.signals.blocking.session or self._snapshot
            assert snapshot is not None
            self._continue_behind(snapshot)
            snapshot.restart_clock()
            self._require_snapshot(False)
            self.state = CaptureState.SNAPSHOT
        elif self.state is CaptureState.STREAMING and self.signals.blocking.is_requested:
            self._stream.disconnect()
        return self.signals.add_notifications(records, self._stream.position_offset)

    def _move(self, request: PositionRequest) -> bool:
        """Continues at the place of a signal after the current transaction, or says why it cannot. Returns whether it does."""
        current, server, structures = self._stream.position, self._server, self._structures
        if current is None or server is None or not self._stream.can_move:
            return False
        known = structures.tables, structures.database_charsets, structures.last_recovered
        try:
            if self.signals.has_snapshot:
                raise DataError("a snapshot runs; stop it (stop-snapshot), or send the signal again when it has ended")
            move = plan_move(self.sessions.catalog(), server, request, current, self._settings)
            if not structures.recover(stream_offset(move.target, server.server_id, int(time.time()))):
                structures.tables, structures.database_charsets, structures.last_recovered = known
                raise DataError("the schema history has no table at that place or before it, so its rows cannot be decoded")
        except (DataError, ConfigError, MySqlServerError) as e:
            log.warning("signal %s: the stream does not move to %s: %s", request.signal_id, request, e.message)
            self._moves.finish(request)
            return False
        log.warning(
            "signal %s: the stream moves from %s:%d (GTIDs %s) to %s: %s",
            request.signal_id, current.file, current.position, current.gtids, request, move.effect,
        )  # fmt: skip
        self._moves.finish(request)
        self._stream.skip_to(move.target)
        self.state = CaptureState.STARTING
        return True
