"""The source task: connects, takes the snapshot, follows the stream, and finds back after every interruption.

How snapshot and stream join, for every state in which a start can find things (snapshot.mode=initial):

- No offset is stored, or one of a snapshot that is not complete, and the slot is not there. It is made with an exported
  snapshot: rows as of its start, then its stream.
- The same, but the slot is there: an earlier try came this far. Rows of it may be in the topics already, and a row deleted since
  would stay there for ever if the slot were made anew. So its stream is followed first, up to the start of a temporary slot; then
  come the rows as of that start, then the stream from there. What was committed before is in front of the rows, what was
  committed after is behind them.
- An offset is stored and the slot is there: the stream goes on.
- An offset is stored, but the slot is gone or has lost its WAL: an error, for changes are gone. With when_needed a new snapshot.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from connect import crash_points
from connect.data.struct import Struct
from connect.errors import ConfigError, ConnectError, UnreachableError
from connect.record import SourceRecord
from connect.source import SourceTask
from connectors.postgres.config import Settings, parse_settings
from connectors.postgres.connection import Connection, Interrupt
from connectors.postgres.errors import ConnectionLostError, Interrupted, PositionGoneError, SlotInUseError
from connectors.postgres.offsets import Position, StoredOffset, format_lsn, load_offset, source_partition
from connectors.postgres.schema import envelope as env
from connectors.postgres.schema.captured_tables import Tables
from connectors.postgres.schema.catalog import Table, estimated_rows, read_tables
from connectors.postgres.schema.filters import Filters, name_matches
from connectors.postgres.snapshot.snapshot import Snapshot, SnapshotPoint, begin_snapshot
from connectors.postgres.streaming import slots
from connectors.postgres.streaming.event_emitter import CaughtUp, ChangeReader
from connectors.postgres.streaming.flush_lsn import Confirmation
from connectors.postgres.streaming.replication import ReplicationStream

log = logging.getLogger(__name__)

_FIRST_WAIT_S = 0.1
_DROP_SLOT_S = 5.0
"""How long a slot that is to be dropped is waited for: the server lets go of it a moment after its reader has gone."""


class PostgresSourceTask(SourceTask):
    """One task a connector: one slot has one reader."""

    settings: Settings

    def __init__(self) -> None:
        self._interrupt = Interrupt()
        self._sql: Connection | None = None
        self._snapshot_connection: Connection | None = None
        self._stream: ReplicationStream | None = None
        self._snapshot: Snapshot | None = None
        self._reader: ChangeReader | None = None
        self._stored: StoredOffset | None = None
        self._point: SnapshotPoint | None = None
        self._estimates: dict[str, int] = {}
        self._phase = "starting"
        self._snapshot_done = False
        self._failures = 0
        self._slot_busy_since: float | None = None
        self._not_before = 0.0
        self._next_heartbeat = 0.0
        self._snapshot_began = 0.0
        self._stopped = False

    # --- the worker's calls -------------------------------------------------------------------------------------------------

    def start(self, config: Mapping[str, str]) -> None:
        self.settings = settings = parse_settings(config)
        self._version = env.connector_version()
        self._filters = Filters(settings.capture)
        self._tables = Tables(settings, self._filters, self._catalogue)
        offset = self.context.offset_reader.offset(source_partition(settings.topic_prefix))
        self._stored = load_offset(offset) if offset else None
        stored = self._stored.position if self._stored else Position(0)
        self._confirmation = Confirmation(0, (stored.tx_lsn, stored.tx_events))
        self._not_before = time.monotonic() + settings.snapshot.delay_s if settings.snapshot.delay_s else 0.0
        self._next_heartbeat = time.monotonic() + settings.heartbeat_interval_s
        try:
            sql = self._catalogue()
            if settings.snapshot.mode != "initial_only":
                slots.check_server(sql)
                slots.check_privileges(sql)
            self._captured()
        except Interrupted:
            return

    def poll(self) -> Sequence[SourceRecord] | None:
        if self._stopped:
            return None
        try:
            if (ahead := self._not_before - time.monotonic()) > 0:
                self._interrupt.wait(min(ahead, 1.0))
                return None
            records = self._poll()
        except Interrupted:
            return None
        except SlotInUseError as e:
            self._wait_for_slot(e)
            return None
        except (ConnectionLostError, UnreachableError) as e:
            self._wait_after_loss(e)
            reader = self._reader
            return _taken(reader) if reader is not None else None  # read before the connection broke
        if records:
            self._failures = 0
        return records

    def commit(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
        more = False
        for partition, offset in offsets:
            if dict(partition) == source_partition(self.settings.topic_prefix):
                more = self._confirmation.stored(offset) or more
        if more and self._stream is not None:
            with contextlib.suppress(ConnectionLostError):  # the next poll finds it, and reports it
                self._stream.send_status()
            crash_points.point("postgres.confirmed")

    def progress(self) -> Mapping[str, Any]:
        answer: dict[str, Any] = {"phase": self._phase}
        if (snapshot := self._snapshot) is not None:
            elapsed = max(time.monotonic() - self._snapshot_began, 0.001)
            answer.update(
                tables_done=snapshot.tables_done,
                tables_total=len(self._estimates),
                table=snapshot.table,
                rows=snapshot.rows,
                rows_estimate=max(sum(self._estimates.values()), snapshot.rows),
                rate=round(snapshot.rows / elapsed, 1),
            )
        if (reader := self._reader) is not None:
            answer.update(
                events=reader.events, lsn=format_lsn(reader.lsn), confirmed_lsn=format_lsn(self._confirmation.confirmed)
            )
            if (stream := self._stream) is not None:
                answer["lag_bytes"] = max(0, stream.server_lsn - reader.lsn)
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

    def _catalogue(self) -> Connection:
        """The connection for the catalogue and heartbeats, opened when needed."""
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

    def _wait_after_loss(self, error: ConnectError) -> None:
        settings = self.settings
        self._disconnect()
        if self._reader is not None:
            self._reader.restart()
        self._failures += 1
        if 0 <= settings.max_retries < self._failures:
            raise ConnectError(f"{error.message} (given up after errors.max.retries={settings.max_retries} tries)") from error
        wait_s = min(_FIRST_WAIT_S * 2 ** min(self._failures - 1, 20), settings.longest_wait_s)
        self._not_before = time.monotonic() + wait_s
        self._phase = "reconnecting"
        log.warning("%s; trying again in %.1f s", error.message, wait_s)

    def _wait_for_slot(self, error: SlotInUseError) -> None:
        """The reader before us may still be there for a moment: a cut connection takes the server time to notice."""
        slot = self.settings.slot
        self._disconnect()
        if self._reader is not None:
            self._reader.restart()
        now = time.monotonic()
        if self._slot_busy_since is None:
            self._slot_busy_since = now
            log.warning("%s; waiting for it", error.message)
        if now - self._slot_busy_since >= slot.max_retries * slot.retry_delay_s:
            raise ConnectError(f"replication slot {slot.name} on PostgreSQL at {self.settings.address}: {error.message}")
        self._not_before = now + min(slot.retry_delay_s, 0.5)
        self._phase = "waiting for slot"

    def _drop_slot(self) -> None:
        interrupt = Interrupt()
        try:
            connection = Connection.open(self.settings.address, interrupt, timeout_s=5)
            try:
                deadline = time.monotonic() + _DROP_SLOT_S
                while slot := slots.read_slot(connection, self.settings.slot.name):
                    if slot.active_pid is None:
                        slots.drop_slot(connection, self.settings.slot.name)
                    elif time.monotonic() < deadline:
                        interrupt.wait(0.05)
                    else:
                        raise ConnectError(
                            f"process {slot.active_pid} of the server reads from it. It keeps back WAL until it is dropped: "
                            f"SELECT pg_drop_replication_slot('{self.settings.slot.name}')"
                        )
            finally:
                connection.close()
        except ConnectError as e:
            log.warning("slot.drop.on.stop: slot %s is not dropped: %s", self.settings.slot.name, e.message)
        finally:
            interrupt.close()

    # --- phases -------------------------------------------------------------------------------------------------------------

    def _poll(self) -> list[SourceRecord] | None:
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
        """Decides what to do from what is stored and what is there, and begins it."""
        settings = self.settings
        mode = settings.snapshot.mode
        wants_snapshot = not self._snapshot_done and self._needs_snapshot()
        if mode == "initial_only":
            if wants_snapshot:
                self._begin_snapshot_alone()
            else:
                self._phase = "done"
            return
        sql = self._catalogue()
        tables = self._captured()
        slots.set_replica_identities(sql, settings.slot, tables)
        slots.ensure_publication(sql, settings.slot, tables)
        slot = slots.read_slot(sql, settings.slot.name)
        if slot is not None and mode == "when_needed" and slot.wal_status == "lost":
            log.warning("replication slot %s has lost WAL it needed: it is made anew, with a new snapshot", slot.name)
            slots.drop_slot(sql, slot.name)
            slot, wants_snapshot = None, True
        if slot is not None:
            slots.check_slot_keeps_wal(slot)
            self._confirmation.confirmed = max(self._confirmation.confirmed, slot.confirmed_lsn)
        if mode == "when_needed" and self._reader is None and self._position().done_lsn > slots.current_lsn(sql):
            log.warning("the stored offset is ahead of PostgreSQL at %s: another database, so a new snapshot", settings.address)
            self._stored, wants_snapshot = None, True
        if wants_snapshot:
            self._begin_snapshot(slot)
            return
        if slot is None:
            if self._position_is_known():
                if mode == "when_needed":
                    log.warning("replication slot %s is gone: it is made anew, with a new snapshot", settings.slot.name)
                    self._reader, self._snapshot_done = None, False
                    self._begin_snapshot(None)
                    return
                raise PositionGoneError(
                    f"replication slot {settings.slot.name} does not exist on PostgreSQL at {settings.address}, but "
                    "changes up to "
                    f"{format_lsn(self._position().done_lsn)} were read: what came after them is gone with the slot. Take "
                    "a new snapshot: "
                    "snapshot.mode=when_needed, or reset the connector's offsets"
                )
            self._make_slot()
        self._check_position()
        self._start_stream()

    def _needs_snapshot(self) -> bool:
        match self.settings.snapshot.mode:
            case "no_data":
                return False
            case "always":
                return True
            case _:
                return self._stored is None or not self._stored.snapshot_completed

    def _position_is_known(self) -> bool:
        return self._stored is not None or self._reader is not None

    def _position(self) -> Position:
        if self._reader is not None:
            return self._reader.position()
        return self._stored.position if self._stored is not None else Position(0)

    def _check_position(self) -> None:
        """Raises when the stored position is of another database, as after a restore: the stream would be skipped in silence."""
        wanted, current = self._position().done_lsn, slots.current_lsn(self._catalogue())
        if wanted > current:
            raise PositionGoneError(
                f"the stored offset is at {format_lsn(wanted)}, but PostgreSQL at {self.settings.address} is only at "
                f"{format_lsn(current)}: "
                "it is not the database that was read before (a restore, another server?). Reset the connector's offsets "
                "for a new snapshot"
            )

    def _captured(self) -> list[Table]:
        settings = self.settings
        tables = read_tables(self._catalogue(), self._filters.captures_table, via_root=settings.slot.via_partition_root)
        if not tables and (settings.capture.table_include or settings.capture.schema_include):
            key = "table.include.list" if settings.capture.table_include else "schema.include.list"
            wanted = ",".join(settings.capture.table_include or settings.capture.schema_include)
            everything = read_tables(self._catalogue(), Filters(type(settings.capture)()).captures_table)
            there = ", ".join(str(t) for t in everything[:10]) or "none"
            raise ConfigError.invalid(
                key,
                wanted,
                f"no table of database {settings.address.database} matches; names are schema.table; there are: {there}",
            )
        return tables

    # --- snapshot -----------------------------------------------------------------------------------------------------------

    def _begin_snapshot_alone(self) -> None:
        """``initial_only``: no slot, the present moment."""
        connection = self._snapshot_connection = Connection.open(self.settings.address, self._interrupt)
        tx_id = begin_snapshot(connection, None)
        self._prepare_snapshot(SnapshotPoint(slots.current_lsn(connection), tx_id))

    def _begin_snapshot(self, slot: slots.Slot | None) -> None:
        settings = self.settings
        replication = Connection.open(settings.address, self._interrupt, replication=True)
        try:
            self._phase = "creating slot"
            name = settings.slot.name if slot is None else f"{settings.slot.name[:54]}_snapshot"
            made = slots.create_slot(replication, name, settings.slot, temporary=slot is not None)
            connection = self._snapshot_connection = Connection.open(settings.address, self._interrupt)
            tx_id = begin_snapshot(connection, made.snapshot)
        finally:
            replication.close()  # a temporary slot goes with it; the imported snapshot stays
        self._prepare_snapshot(SnapshotPoint(made.consistent_lsn, tx_id))
        if slot is None:
            self._confirmation.confirmed = made.consistent_lsn
            if self._reader is not None:
                self._reader.jump(made.consistent_lsn)
        else:
            log.info(
                "slot %s is there already: following it to %s before the snapshot", slot.name, format_lsn(made.consistent_lsn)
            )
            self._start_stream(stop_lsn=made.consistent_lsn)

    def _prepare_snapshot(self, point: SnapshotPoint) -> None:
        settings = self.settings
        connection = self._snapshot_connection
        assert connection is not None
        tables = read_tables(connection, self._filters.captures_table, via_root=settings.slot.via_partition_root)
        if settings.snapshot.include:
            tables = [table for table in tables if name_matches(settings.snapshot.include, str(table))]
        estimates = {str(table): estimated_rows(connection, table) for table in tables}
        if settings.snapshot.order != "disabled":
            tables.sort(key=lambda table: estimates[str(table)], reverse=settings.snapshot.order == "descending")
        self._point = point
        self._estimates = estimates
        self._snapshot = Snapshot(connection, [self._tables.rows_of(table) for table in tables], point, settings, self._version)
        self._snapshot_began = time.monotonic()
        self._phase = "snapshot"

    def _read_snapshot(self, snapshot: Snapshot) -> list[SourceRecord]:
        records = snapshot.read()
        if snapshot.done:
            self._end_snapshot(snapshot)
        return records

    def _end_snapshot(self, snapshot: Snapshot) -> None:
        point, connection = self._point, self._snapshot_connection
        assert point is not None
        assert connection is not None
        connection.close()
        self._snapshot_connection = None
        self._snapshot_done = True
        log.info("snapshot: %d rows of %d tables as of %s", snapshot.rows, len(self._estimates), format_lsn(point.lsn))
        if self.settings.snapshot.mode == "initial_only":
            self._phase = "done"
            return
        if snapshot.rows:
            self._confirmation.snapshot_done(point.lsn)
        if self._reader is None:
            self._reader = self._new_reader(Position(point.lsn))
        else:
            self._reader.jump(point.lsn)
        self._snapshot = snapshot
        if self.settings.snapshot.streaming_delay_s:
            self._not_before = time.monotonic() + self.settings.snapshot.streaming_delay_s

    # --- stream -------------------------------------------------------------------------------------------------------------

    def _new_reader(self, position: Position) -> ChangeReader:
        return ChangeReader(self.settings, self._tables, position, self._confirmation, self._version)

    def _make_slot(self) -> None:
        replication = Connection.open(self.settings.address, self._interrupt, replication=True)
        try:
            made = slots.create_slot(replication, self.settings.slot.name, self.settings.slot, export=False)
        finally:
            replication.close()
        self._confirmation.confirmed = made.consistent_lsn

    def _start_stream(self, stop_lsn: int | None = None) -> None:
        if self._reader is None:
            self._reader = self._new_reader(self._position())
        reader = self._reader
        reader.stop_lsn = stop_lsn
        connection = Connection.open(self.settings.address, self._interrupt, replication=True)
        stream = ReplicationStream(connection, self.settings.slot, self._confirmation)
        try:
            stream.start(reader.position().done_lsn)
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
        stream, reader = self._stream, self._reader
        assert stream is not None
        assert reader is not None
        out, most = reader.out, self.settings.max_batch

        try:
            if not stream.read(reader.on_data, reader.on_keepalive, out, most) or not out:
                if reader.stop_lsn is not None:
                    stream.send_status(want_reply=True)  # its answer says how far the server has read
                if stream.wait(self._patience()):
                    stream.read(reader.on_data, reader.on_keepalive, out, most)
        except CaughtUp:
            self._caught_up(stream, reader)
        self._heartbeat(reader)
        return _taken(reader)

    def _caught_up(self, stream: ReplicationStream, reader: ChangeReader) -> None:
        assert self._point is not None
        stream.close()
        self._stream = None
        reader.restart()
        reader.jump(self._point.lsn)
        reader.stop_lsn = None
        self._snapshot_began = time.monotonic()
        self._phase = "snapshot"

    def _patience(self) -> float:
        patience = self.settings.poll_interval_s
        if self.settings.heartbeat_interval_s:
            patience = min(patience, max(0.0, self._next_heartbeat - time.monotonic()))
        return patience

    def _heartbeat(self, reader: ChangeReader) -> None:
        settings = self.settings
        if not settings.heartbeat_interval_s or reader.stop_lsn is not None or time.monotonic() < self._next_heartbeat:
            return
        self._next_heartbeat = time.monotonic() + settings.heartbeat_interval_s
        if settings.heartbeat_query:
            try:
                self._catalogue().execute(settings.heartbeat_query)
            except ConnectionLostError:
                raise
            except ConnectError as e:
                log.warning("heartbeat.action.query failed: %s", e.message)
        reader.out.append(
            SourceRecord(
                source_partition(settings.topic_prefix),
                reader.heartbeat_offset(),
                settings.heartbeat_topic,
                0,
                env.HEARTBEAT_KEY,
                Struct(env.HEARTBEAT_KEY, [settings.topic_prefix]),
                env.HEARTBEAT_VALUE,
                Struct(env.HEARTBEAT_VALUE, [time.time_ns() // 1_000_000]),
            )
        )


def _taken(reader: ChangeReader) -> list[SourceRecord] | None:
    """What the reader has put out, taken from it."""
    out, reader.out = reader.out, []
    return out or None
