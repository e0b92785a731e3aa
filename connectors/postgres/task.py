"""The source task: connects, takes the snapshot, streams changes, and recovers from interruptions.

How snapshot and streaming join, by the state at the start (snapshot.mode=initial):

- No offset is stored, or the stored snapshot is incomplete, and the slot does not exist: create the slot with an exported
  snapshot, read the rows as of its start, then stream from it.
- The same, but the slot exists: an earlier attempt created it. Its rows may be in the topics already, and rows deleted since then
  would stay there forever if the slot were recreated. So stream first, up to the start of a temporary slot; then read the rows as
  of that start, then stream from there. Earlier commits precede the rows, later commits follow them.
- An offset is stored and the slot exists: continue streaming.
- An offset is stored, but the slot does not exist or has lost WAL: fail, because changes are missing. With when_needed, take a
  new snapshot.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from connect import crash_points
from connect.backoff import Backoff
from connect.data.struct import Struct
from connect.errors import ConfigError, ConnectError, UnreachableError
from connect.record import SourceRecord
from connect.source import SourceTask
from connectors.postgres.config import PostgresConfig, parse_config
from connectors.postgres.connection import Connection, Interrupt
from connectors.postgres.errors import ConnectionLostError, PositionLostError, SlotInUseError, TablesChangedError, WaitInterrupted
from connectors.postgres.offsets import StoredOffset, StreamPosition, format_lsn, parse_offset, source_partition
from connectors.postgres.schema import envelope as env
from connectors.postgres.schema.catalog import CapturedTable, estimated_rows, read_tables
from connectors.postgres.schema.checks import check_keys, check_topics
from connectors.postgres.schema.filters import Filters, name_matches
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.snapshot.reader import SnapshotPoint, SnapshotReader
from connectors.postgres.snapshot.transaction import read_next_transaction_id, start_snapshot
from connectors.postgres.streaming import publications, slots
from connectors.postgres.streaming.captured_tables import CapturedTables
from connectors.postgres.streaming.event_emitter import CatchUpComplete, ChangeEventEmitter
from connectors.postgres.streaming.flush_lsn import FlushTracker
from connectors.postgres.streaming.replication import ReplicationStream

log = logging.getLogger(__name__)

_INITIAL_BACKOFF_S = 0.1
_DROP_SLOT_TIMEOUT_S = 5.0
"""How long to wait until a slot can be dropped: the server releases it a moment after its reader disconnects."""


# Large class: splitting it by the state machine of snapshot and streaming is planned.
class PostgresSourceTask(SourceTask):
    """The only task of a connector, because a slot has one reader."""

    settings: PostgresConfig

    def __init__(self) -> None:
        self._interrupt = Interrupt()
        self._sql: Connection | None = None
        self._snapshot_connection: Connection | None = None
        self._stream: ReplicationStream | None = None
        self._snapshot: SnapshotReader | None = None
        self._emitter: ChangeEventEmitter | None = None
        self._stored_offset: StoredOffset | None = None
        self._snapshot_point: SnapshotPoint | None = None
        self._row_estimates: dict[str, int] = {}
        self._phase = "starting"
        self._snapshot_done = False
        self._failures = 0
        self._slot_busy_since: float | None = None
        self._resume_at = 0.0
        self._next_heartbeat = 0.0
        self._snapshot_started_at = 0.0
        self._stopped = False

    # --- called by the worker -------------------------------------------------------------------------------------------------

    def start(self, config: Mapping[str, str]) -> None:
        self.settings = settings = parse_config(config)
        self._version = env.connector_version()
        self._filters = Filters(settings.capture)
        self._tables = CapturedTables(settings, self._filters, self._catalog_connection)
        self._publication = publications.PublicationUpdater(settings.slot, self._filters, self._catalog_connection)
        offset = self.context.offset_reader.offset(source_partition(settings.topic_prefix))
        self._stored_offset = parse_offset(offset) if offset else None
        stored = self._stored_offset.position if self._stored_offset else StreamPosition(0)
        self._flush_tracker = FlushTracker(0, (stored.tx_lsn, stored.tx_events))
        self._resume_at = time.monotonic() + settings.snapshot.delay_s if settings.snapshot.delay_s else 0.0
        self._next_heartbeat = time.monotonic() + settings.heartbeat_interval_s
        try:
            sql = self._catalog_connection()
            if settings.snapshot.mode != "initial_only":
                slots.check_server(sql)
                slots.check_privileges(sql)
            self._captured_tables()
        except WaitInterrupted:
            return

    def poll(self) -> Sequence[SourceRecord] | None:
        if self._stopped:
            return None
        try:
            if (ahead := self._resume_at - time.monotonic()) > 0:
                self._interrupt.wait(min(ahead, 1.0))
                return None
            records = self._poll()
        except WaitInterrupted:
            return None
        except SlotInUseError as e:
            self._wait_for_slot(e)
            return None
        except (ConnectionLostError, TablesChangedError, UnreachableError) as e:
            self._back_off(e)
            emitter = self._emitter
            return _take_records(emitter) if emitter is not None else None  # records read before the connection was lost
        if records:
            self._failures = 0
        return records

    def commit(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
        more = False
        for partition, offset in offsets:
            if dict(partition) == source_partition(self.settings.topic_prefix):
                more = self._flush_tracker.offset_stored(offset) or more
        if more and self._stream is not None:
            with contextlib.suppress(ConnectionLostError):  # the next poll reports it
                self._stream.send_status()
            crash_points.point("postgres.confirmed")

    def progress(self) -> Mapping[str, Any]:
        answer: dict[str, Any] = {"phase": self._phase}
        if (snapshot := self._snapshot) is not None:
            elapsed = max(time.monotonic() - self._snapshot_started_at, 0.001)
            answer.update(
                tables_done=snapshot.tables_done,
                tables_total=len(self._row_estimates),
                table=snapshot.table,
                rows=snapshot.rows,
                rows_estimate=max(sum(self._row_estimates.values()), snapshot.rows),
                rate=round(snapshot.rows / elapsed, 1),
            )
        if (emitter := self._emitter) is not None:
            answer.update(
                events=emitter.events, lsn=format_lsn(emitter.lsn), confirmed_lsn=format_lsn(self._flush_tracker.confirmed_lsn)
            )
            if (stream := self._stream) is not None:
                answer["lag_bytes"] = max(0, stream.server_lsn - emitter.lsn)
        return answer

    def stop(self) -> None:
        self._stopped = True
        self._interrupt.set()

    def close(self) -> None:
        drop = self._phase != "starting" and self._stopped and self.settings.slot.drop_on_stop
        self._disconnect()
        if drop:
            self._drop_slot()
        self._interrupt.close()

    # --- connections --------------------------------------------------------------------------------------------------------

    def _catalog_connection(self) -> Connection:
        """The connection for catalog queries and heartbeats, opened on demand."""
        if self._sql is None:
            self._sql = Connection.open(self.settings.address, self._interrupt)
        return self._sql

    def _disconnect(self) -> None:
        if self._stream is not None:
            self._stream.close()
        for connection in (self._snapshot_connection, self._sql):
            if connection is not None:
                connection.close()
        self._stream = self._snapshot_connection = self._sql = None
        if not self._snapshot_done:
            self._snapshot = None

    def _back_off(self, error: ConnectError) -> None:
        settings = self.settings
        self._disconnect()
        if self._emitter is not None:
            self._emitter.reset_connection()
        self._failures += 1
        if 0 <= settings.max_retries < self._failures:
            raise ConnectError(f"{error.message} (gave up after errors.max.retries={settings.max_retries} retries)") from error
        wait_s = Backoff(_INITIAL_BACKOFF_S, settings.max_backoff_s).delay_after_s(self._failures)
        self._resume_at = time.monotonic() + wait_s
        self._phase = "reconnecting"
        log.warning("%s; retrying in %.1f s", error.message, wait_s)

    def _wait_for_slot(self, error: SlotInUseError) -> None:
        """Waits for a slot in use: the server may take a moment to notice that the previous reader has disconnected."""
        slot = self.settings.slot
        self._disconnect()
        if self._emitter is not None:
            self._emitter.reset_connection()
        now = time.monotonic()
        if self._slot_busy_since is None:
            self._slot_busy_since = now
            log.warning("%s; waiting until the slot is free", error.message)
        if now - self._slot_busy_since >= slot.max_retries * slot.retry_delay_s:
            raise ConnectError(f"replication slot {slot.name} on PostgreSQL at {self.settings.address}: {error.message}")
        self._resume_at = now + min(slot.retry_delay_s, 0.5)
        self._phase = "waiting for slot"

    def _drop_slot(self) -> None:
        interrupt = Interrupt()
        try:
            connection = Connection.open(self.settings.address, interrupt, timeout_s=5)
            try:
                deadline = time.monotonic() + _DROP_SLOT_TIMEOUT_S
                while slot := slots.read_slot(connection, self.settings.slot.name):
                    if slot.active_pid is None:
                        slots.drop_slot(connection, self.settings.slot.name)
                    elif time.monotonic() < deadline:
                        interrupt.wait(0.05)
                    else:
                        raise ConnectError(
                            f"server process {slot.active_pid} still reads from it. The slot retains WAL until it is dropped: "
                            f"SELECT pg_drop_replication_slot('{self.settings.slot.name}')"
                        )
            finally:
                connection.close()
        except ConnectError as e:
            log.warning("slot.drop.on.stop: could not drop slot %s: %s", self.settings.slot.name, e.message)
        finally:
            interrupt.close()

    # --- phases -------------------------------------------------------------------------------------------------------------

    def _poll(self) -> Sequence[SourceRecord] | None:
        if self._phase == "done":
            self._interrupt.wait(self.settings.poll_interval_s)
            return None
        if self._stream is None and self._snapshot is None:
            self._open()
            return None
        if self._snapshot is not None and not self._snapshot_done and self._stream is None:
            return self._read_snapshot(self._snapshot)
        return self._read_stream()

    def _open(self) -> None:
        """Decides by stored offset and server state how to start, and starts it."""
        settings = self.settings
        mode = settings.snapshot.mode
        wants_snapshot = not self._snapshot_done and self._needs_snapshot()
        if mode == "initial_only":
            if wants_snapshot:
                self._start_snapshot_without_slot()
            else:
                self._phase = "done"
            return
        sql = self._catalog_connection()
        publications.set_replica_identities(sql, settings.slot, self._captured_tables())
        publications.ensure_publication(sql, settings.slot, self._filters)
        tables = self._captured_tables()
        check_keys(tables, settings, self._filters)
        check_topics(tables, settings)
        slot = slots.read_slot(sql, settings.slot.name)
        if slot is not None and mode == "when_needed" and slot.wal_status == "lost":
            log.warning("replication slot %s has lost required WAL; recreating it with a new snapshot", slot.name)
            slots.drop_slot(sql, slot.name)
            slot, wants_snapshot = None, True
        if slot is not None:
            slots.check_slot_has_wal(slot)
            self._flush_tracker.confirmed_lsn = max(self._flush_tracker.confirmed_lsn, slot.confirmed_lsn)
        if mode == "when_needed" and self._emitter is None and self._position().done_lsn > slots.current_lsn(sql):
            log.warning(
                "the stored offset is ahead of PostgreSQL at %s, so this is another database; taking a new snapshot",
                settings.address,
            )
            self._stored_offset, wants_snapshot = None, True
        if wants_snapshot:
            self._start_snapshot(slot)
            return
        if slot is None:
            if self._position_is_known():
                if mode == "when_needed":
                    log.warning("replication slot %s does not exist; recreating it with a new snapshot", settings.slot.name)
                    self._emitter, self._snapshot_done = None, False
                    self._start_snapshot(None)
                    return
                raise PositionLostError(
                    f"replication slot {settings.slot.name} does not exist on PostgreSQL at {settings.address}, but "
                    "changes up to "
                    f"{format_lsn(self._position().done_lsn)} were read: later changes are lost. Take a new snapshot: set "
                    "snapshot.mode=when_needed, or reset the connector's offsets"
                )
            self._create_slot()
        self._check_position()
        self._start_stream()

    def _needs_snapshot(self) -> bool:
        match self.settings.snapshot.mode:
            case "no_data":
                return False
            case "always":
                return True
            case _:
                return self._stored_offset is None or not self._stored_offset.snapshot_completed

    def _position_is_known(self) -> bool:
        return self._stored_offset is not None or self._emitter is not None

    def _position(self) -> StreamPosition:
        if self._emitter is not None:
            return self._emitter.position()
        return self._stored_offset.position if self._stored_offset is not None else StreamPosition(0)

    def _check_position(self) -> None:
        """Raises if the stored position is ahead of the server, as after a restore: changes would be skipped silently."""
        wanted, current = self._position().done_lsn, slots.current_lsn(self._catalog_connection())
        if wanted > current:
            raise PositionLostError(
                f"the stored offset is at {format_lsn(wanted)}, but PostgreSQL at {self.settings.address} is only at "
                f"{format_lsn(current)}: "
                "it is not the database that was read before (a restore, another server?). Reset the connector's offsets "
                "to take a new snapshot"
            )

    def _captured_tables(self) -> list[CapturedTable]:
        settings = self.settings
        tables = publications.read_captured_tables(self._catalog_connection(), settings, self._filters)
        if not tables and (settings.capture.table_include or settings.capture.schema_include):
            key = "table.include.list" if settings.capture.table_include else "schema.include.list"
            wanted = ",".join(settings.capture.table_include or settings.capture.schema_include)
            everything = read_tables(self._catalog_connection(), Filters(type(settings.capture)()).captures_table)
            existing = ", ".join(str(t) for t in everything[:10]) or "none"
            raise ConfigError.invalid(
                key,
                wanted,
                f"no table of database {settings.address.database} matches; names are schema.table; existing tables: {existing}",
            )
        return tables

    # --- snapshot -----------------------------------------------------------------------------------------------------------

    def _start_snapshot_without_slot(self) -> None:
        """``initial_only``: takes a snapshot of the current state, without a slot."""
        connection = self._snapshot_connection = Connection.open(self.settings.address, self._interrupt)
        tables = start_snapshot(connection, None, self._snapshot_tables, self.settings)
        self._prepare_snapshot(SnapshotPoint(slots.current_lsn(connection), read_next_transaction_id(connection)), tables)

    def _start_snapshot(self, slot: slots.ReplicationSlot | None) -> None:
        settings = self.settings
        replication = Connection.open(settings.address, self._interrupt, replication=True)
        try:
            self._phase = "creating slot"
            name = settings.slot.name if slot is None else f"{settings.slot.name[:54]}_snapshot"
            created = slots.create_slot(replication, name, settings.slot, temporary=slot is not None)
            connection = self._snapshot_connection = Connection.open(settings.address, self._interrupt)
            tables = start_snapshot(connection, created.snapshot, self._snapshot_tables, settings)
        finally:
            replication.close()  # drops a temporary slot; the imported snapshot stays valid
        self._prepare_snapshot(SnapshotPoint(created.consistent_lsn, read_next_transaction_id(connection)), tables)
        if slot is None:
            self._flush_tracker.confirmed_lsn = created.consistent_lsn
            if self._emitter is not None:
                self._emitter.skip_to(created.consistent_lsn)
        else:
            log.info(
                "slot %s already exists; streaming from it up to %s before the snapshot",
                slot.name,
                format_lsn(created.consistent_lsn),
            )
            self._start_stream(stop_lsn=created.consistent_lsn)

    def _snapshot_tables(self, connection: Connection) -> list[TableRows]:
        """Reads the tables of the snapshot as of the connection's transaction."""
        include = self.settings.snapshot.include
        tables = publications.read_captured_tables(connection, self.settings, self._filters)
        return [self._tables.rows_of(table) for table in tables if not include or name_matches(include, str(table))]

    def _prepare_snapshot(self, point: SnapshotPoint, tables: list[TableRows]) -> None:
        settings = self.settings
        connection = self._snapshot_connection
        assert connection is not None
        estimates = {str(rows.table): estimated_rows(connection, rows.table) for rows in tables}
        if settings.snapshot.order != "disabled":
            tables.sort(key=lambda rows: estimates[str(rows.table)], reverse=settings.snapshot.order == "descending")
        self._snapshot_point = point
        self._row_estimates = estimates
        self._snapshot = SnapshotReader(
            connection, tables, point, settings, self._version,
            self._tables.make_nullable,
        )  # fmt: skip
        self._snapshot_started_at = time.monotonic()
        self._phase = "snapshot"

    def _read_snapshot(self, snapshot: SnapshotReader) -> Sequence[SourceRecord]:
        records = snapshot.read()
        if snapshot.done:
            self._end_snapshot(snapshot)
        return records

    def _end_snapshot(self, snapshot: SnapshotReader) -> None:
        point, connection = self._snapshot_point, self._snapshot_connection
        assert point is not None
        assert connection is not None
        connection.close()
        self._snapshot_connection = None
        self._snapshot_done = True
        log.info("snapshot: %d rows of %d tables as of %s", snapshot.rows, len(self._row_estimates), format_lsn(point.lsn))
        if self.settings.snapshot.mode == "initial_only":
            self._phase = "done"
            return
        if snapshot.rows:
            self._flush_tracker.snapshot_emitted(point.lsn)
        if self._emitter is None:
            self._emitter = self._create_emitter(StreamPosition(point.lsn))
        else:
            self._emitter.skip_to(point.lsn)
        self._snapshot = snapshot
        if self.settings.snapshot.streaming_delay_s:
            self._resume_at = time.monotonic() + self.settings.snapshot.streaming_delay_s

    # --- streaming -------------------------------------------------------------------------------------------------------------

    def _create_emitter(self, position: StreamPosition) -> ChangeEventEmitter:
        return ChangeEventEmitter(self.settings, self._tables, position, self._flush_tracker, self._version)

    def _create_slot(self) -> None:
        replication = Connection.open(self.settings.address, self._interrupt, replication=True)
        try:
            created = slots.create_slot(replication, self.settings.slot.name, self.settings.slot, export=False)
        finally:
            replication.close()
        self._flush_tracker.confirmed_lsn = created.consistent_lsn

    def _start_stream(self, stop_lsn: int | None = None) -> None:
        if self._emitter is None:
            self._emitter = self._create_emitter(self._position())
        emitter = self._emitter
        emitter.stop_lsn = stop_lsn
        connection = Connection.open(self.settings.address, self._interrupt, replication=True)
        stream = ReplicationStream(connection, self.settings.slot, self._flush_tracker)
        try:
            stream.start(emitter.position().done_lsn)
        except BaseException:
            stream.close()
            raise
        self._stream = stream
        self._slot_busy_since = None
        self._failures = 0
        self._phase = "streaming" if stop_lsn is None else "catching up"

    def _read_stream(self) -> list[SourceRecord] | None:
        if self._stream is None:
            self._check_position()
            self._start_stream()
        stream, emitter = self._stream, self._emitter
        assert stream is not None
        assert emitter is not None
        out, max_records = emitter.out, self.settings.max_batch

        try:
            if not stream.read(emitter.on_data, emitter.on_keepalive, out, max_records) or not out:
                if emitter.stop_lsn is not None:
                    stream.send_status(want_reply=True)  # the reply contains the position up to which the server has read
                if stream.wait(self._read_timeout_s()):
                    stream.read(emitter.on_data, emitter.on_keepalive, out, max_records)
        except CatchUpComplete:
            self._finish_catch_up(stream, emitter)
        self._publication.update_if_due()
        self._heartbeat(emitter)
        return _take_records(emitter)

    def _finish_catch_up(self, stream: ReplicationStream, emitter: ChangeEventEmitter) -> None:
        assert self._snapshot_point is not None
        stream.close()
        self._stream = None
        emitter.reset_connection()
        emitter.skip_to(self._snapshot_point.lsn)
        emitter.stop_lsn = None
        self._snapshot_started_at = time.monotonic()
        self._phase = "snapshot"

    def _read_timeout_s(self) -> float:
        timeout_s = self.settings.poll_interval_s
        if self.settings.heartbeat_interval_s:
            timeout_s = min(timeout_s, max(0.0, self._next_heartbeat - time.monotonic()))
        return timeout_s

    def _heartbeat(self, emitter: ChangeEventEmitter) -> None:
        settings = self.settings
        if not settings.heartbeat_interval_s or emitter.stop_lsn is not None or time.monotonic() < self._next_heartbeat:
            return
        self._next_heartbeat = time.monotonic() + settings.heartbeat_interval_s
        if settings.heartbeat_query:
            try:
                self._catalog_connection().execute(settings.heartbeat_query)
            except ConnectionLostError:
                raise
            except ConnectError as e:
                log.warning("heartbeat.action.query failed: %s", e.message)
        emitter.out.append(
            SourceRecord(
                source_partition(settings.topic_prefix),
                emitter.heartbeat_offset(),
                settings.heartbeat_topic,
                0,
                env.HEARTBEAT_KEY,
                Struct(env.HEARTBEAT_KEY, [settings.topic_prefix]),
                env.HEARTBEAT_VALUE,
                Struct(env.HEARTBEAT_VALUE, [time.time_ns() // 1_000_000]),
            )
        )


def _take_records(emitter: ChangeEventEmitter) -> list[SourceRecord] | None:
    """Takes the pending records from the emitter."""
    out, emitter.out = emitter.out, []
    return out or None
