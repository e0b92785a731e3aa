"""The stream of changes across connections: its position, its records, and its heartbeats."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect.errors import ConnectError
from connect.record import SourceRecord
from connectors.cdc.streaming.heartbeat import Heartbeat
from connectors.cdc.streaming.read_pace import ReadPace
from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import Connection
from connectors.postgres.offsets import StoredOffset, StreamPosition, format_lsn
from connectors.postgres.sessions import DatabaseSessions
from connectors.postgres.streaming.captured_tables import CapturedTables
from connectors.postgres.streaming.event_emitter import CatchUpComplete, ChangeEventEmitter
from connectors.postgres.streaming.flush_lsn import FlushTracker
from connectors.postgres.streaming.observers import StreamObservers
from connectors.postgres.streaming.replication import ReplicationStream
from connectors.postgres.streaming.server import read_promoted_timeline
from connectors.postgres.streaming.slots import SlotXmin

_MARK_RETRY_S = 0.005
"""Wait until the server has flushed WAL that it did not send yet."""


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """All changes before ``lsn`` were read. ``commit_us`` is when the last transaction that was read committed, None if
    unknown."""

    lsn: int
    commit_us: int | None


class StreamingSession:
    """Reads changes. The position outlives the connection."""

    def __init__(
        self,
        settings: PostgresConfig,
        tables: CapturedTables,
        sessions: DatabaseSessions,
        flush_tracker: FlushTracker,
        version: str,
        observers: StreamObservers,
    ) -> None:
        self._settings = settings
        self._tables = tables
        self._flush_tracker = flush_tracker
        self._version = version
        self._observers = observers
        self._sessions = sessions
        self._pace = ReadPace()
        self._heartbeat = Heartbeat(settings.heartbeat, settings.topic_prefix, lambda sql: sessions.writer().execute(sql))
        self._xmin = SlotXmin(settings.slot, sessions.catalog)
        self._emitter: ChangeEventEmitter | None = None
        self._stream: ReplicationStream | None = None
        self._catalog = sessions.catalog
        self._may_be_promoted = False
        """Whether the server may have been a standby when it was identified."""
        self._standby_lsn = 0
        """What was read from a standby when it was last asked whether it was promoted."""
        self._latest: Mapping[str, Any] | None = None

    @property
    def is_open(self) -> bool:
        return self._stream is not None

    @property
    def has_more(self) -> bool:
        """Whether more changes had arrived than the last read has returned."""
        return self._stream is not None and self._stream.has_more

    def position(self) -> StreamPosition | None:
        """The position to continue from; None before the first start."""
        return self._emitter.position() if self._emitter is not None else None

    def continue_from(self, position: StreamPosition, stored: StoredOffset | None = None) -> None:
        """Sets the position of the next start. ``stored`` is the offset that it comes from."""
        if self._emitter is None or position != self._emitter.position():
            self._emitter = ChangeEventEmitter(self._settings, self._tables, position, self._version, self._observers)
            if stored is not None:
                self._emitter.restore_transaction(stored)
            self._latest = None

    def start_at_slot(self, lsn: int) -> None:
        """Sets the position to the start of a slot: nothing is known about earlier commits."""
        self.continue_from(StreamPosition(lsn, commit_lsn=0))

    def skip_to(self, lsn: int) -> None:
        """Continues behind a snapshot, which contains everything that committed before ``lsn``."""
        assert self._emitter is not None
        self._emitter.skip_to(lsn)

    def start(
        self,
        connection: Connection,
        stop_lsn: int | None = None,
        snapshot_state: str | None = None,
        *,
        requires_snapshot: bool = False,
    ) -> None:
        """Starts the stream at the position. With ``stop_lsn``, ``read`` raises CatchUpComplete there.

        With ``requires_snapshot``, offsets still require a snapshot, from ``snapshot_state`` on.
        """
        emitter = self._emitter
        assert emitter is not None
        emitter.stop_lsn, offsets = stop_lsn, emitter.offsets
        offsets.snapshot_state, offsets.requires_snapshot = snapshot_state, requires_snapshot
        self._may_be_promoted = True  # even if it is no standby now
        stream = ReplicationStream(connection, self._settings.slot, self._flush_tracker)
        try:
            stream.start(emitter.position().done_lsn)
        except BaseException:
            stream.close()
            raise
        self._stream = stream

    def read(self) -> None:
        """Reads what has arrived, or waits for it. :meth:`take_records` returns the records, also after an error.

        Raises CatchUpComplete and ConnectionLostError.
        """
        stream, emitter = self._stream, self._emitter
        assert stream is not None
        assert emitter is not None
        if (delay_s := self._pace.delay_s()) > 0:
            self._sessions.interrupt.wait(delay_s)
        emitter.set_xmin(self._xmin.read())
        try:
            self._read_available(stream, emitter)
        finally:
            if self._may_be_promoted:
                self._note_promotion(emitter)
        out = emitter.out
        self._pace.start(kinds=out.count_kinds(), is_full=stream.has_more)
        if emitter.stop_lsn is None and self._heartbeat.is_due and (offset := self._heartbeat_offset(emitter)) is not None:
            out.append(self._heartbeat.beat(offset))

    def _read_available(self, stream: ReplicationStream, emitter: ChangeEventEmitter) -> None:
        settings = self._settings
        out, limits = emitter.out, (settings.max_batch, settings.max_batch_bytes)
        if (stream.read(emitter.on_data, emitter.on_keepalive, out, *limits) and out) or stream.has_more:
            return
        if emitter.stop_lsn is not None or self._observers.awaits_mark:
            stream.send_status(want_reply=True)  # the reply contains the position up to which the server has read
        if stream.wait(self._heartbeat.limit_wait_s(settings.poll_interval_s)):
            stream.read(emitter.on_data, emitter.on_keepalive, out, *limits)
        if self._observers.awaits_mark and not out:
            stream.wait(_MARK_RETRY_S)

    def _note_promotion(self, emitter: ChangeEventEmitter) -> None:
        """Notes that the standby was promoted from which changes were read. What was read is part of its new timeline then."""
        if emitter.lsn == self._standby_lsn:
            return
        self._standby_lsn = emitter.lsn
        with contextlib.suppress(ConnectError):  # the next read reports it
            timeline = read_promoted_timeline(self._catalog())
            if timeline is not None:
                self._flush_tracker.promoted(timeline)
                self._may_be_promoted = False

    def _heartbeat_offset(self, emitter: ChangeEventEmitter) -> Mapping[str, Any] | None:
        latest = emitter.out.source_offset if emitter.out else self._latest
        return emitter.offsets.of_position() or latest

    def take_records(self) -> Sequence[SourceRecord]:
        """Returns the records that were read and removes them."""
        emitter = self._emitter
        if emitter is None or not emitter.out:
            return []
        out = emitter.take_records()
        self._latest = out.source_offset
        return out

    def position_offset(self) -> Mapping[str, Any] | None:
        """The offset of the position; None if that is the offset of the last record, and before a snapshot."""
        emitter = self._emitter
        if emitter is None or emitter.out or emitter.stop_lsn is not None:
            return None
        return emitter.offsets.of_position()

    def confirm(self) -> None:
        """Reports the confirmed LSN to the server. Raises ConnectionLostError."""
        if self._stream is not None:
            self._stream.send_status()

    def disconnect(self) -> None:
        """Closes the connection; the position remains."""
        if self._stream is not None:
            self._stream.close()
        self._stream = None
        if self._emitter is not None:
            self._emitter.reset_connection()

    def read_position(self) -> ReadPosition | None:
        """Up to where changes were read; None before the first start. Callable from any thread."""
        emitter = self._emitter
        if emitter is None:
            return None
        return ReadPosition(emitter.read_lsn, emitter.commit_us)

    def end_stream(self) -> None:
        """Ends the session on the server, from any thread; the next read raises ConnectionLostError."""
        if (stream := self._stream) is not None:
            stream.disconnect()

    def progress(self, wal_end: int = 0) -> Mapping[str, Any]:
        """``wal_end`` is the end of the server's WAL, if somebody has asked for it."""
        emitter, stream = self._emitter, self._stream
        if emitter is None:
            return {}
        answer: dict[str, Any] = {
            "events": emitter.events,
            "lsn": format_lsn(emitter.lsn),
            "confirmed_lsn": format_lsn(self._flush_tracker.confirmed_lsn),
        }
        known = max(wal_end, stream.server_lsn if stream is not None else 0)
        if known and (position := self.read_position()) is not None:
            answer["lag_bytes"] = max(0, known - position.lsn)
        return answer


__all__ = ["CatchUpComplete", "StreamingSession"]
