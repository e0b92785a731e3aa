"""The stream of changes across connections: its position, its records, and its heartbeats."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from connect.record import SourceRecord
from connectors.cdc.streaming.heartbeat import Heartbeat
from connectors.cdc.streaming.read_pace import ReadPace
from connectors.cdc.streaming.transaction_metadata import TransactionMetadata
from connectors.mysql.binlog import MariaDbGtidPosition
from connectors.mysql.binlog_client import BinlogClient, BinlogStart, FilePosition
from connectors.mysql.config import MySqlConfig
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.errors import DuplicateServerIdError
from connectors.mysql.offsets import BinlogPosition, Gtids, StoredBinlogOffset, parse_gtids
from connectors.mysql.position_tracker import BinlogPositionTracker
from connectors.mysql.schema.captured_tables import MySqlCapturedTables
from connectors.mysql.server import ServerInfo, read_start_gtids
from connectors.mysql.sessions import MySqlSessions
from connectors.mysql.streaming.change_events import BinlogEventBuilder
from connectors.mysql.streaming.event_emitter import BinlogEventEmitter
from connectors.mysql.streaming.observers import BinlogMark, BinlogObservers
from connectors.mysql.streaming.structure_changes import StructureChanges


class BinlogStream:
    """Reads changes. The position outlives the connection."""

    def __init__(
        self,
        settings: MySqlConfig,
        tables: MySqlCapturedTables,
        structures: StructureChanges,
        sessions: MySqlSessions,
        builder: BinlogEventBuilder,
        observers: BinlogObservers,
    ) -> None:
        self._settings = settings
        self._tables = tables
        self._structures = structures
        self._sessions = sessions
        self._builder = builder
        self._observers = observers
        self._pace = ReadPace()
        self._heartbeat = Heartbeat(settings.heartbeat, settings.topic_prefix, lambda sql: sessions.catalog().execute(sql))
        self._metadata = _transaction_metadata(settings)
        self._emitter: BinlogEventEmitter | None = None
        self._client: BinlogClient | None = None
        self._pending: deque[bytes] = deque()
        self._stop: BinlogMark | None = None
        self._position: BinlogPosition | None = None
        self._events = 0

    @property
    def is_open(self) -> bool:
        return self._client is not None

    @property
    def has_more(self) -> bool:
        """Whether more changes had arrived than the last read has returned."""
        return bool(self._pending)

    @property
    def position(self) -> BinlogPosition | None:
        """The position to continue from; None before the first start."""
        return self._position if self._emitter is None else self._emitter.position

    @property
    def tracker(self) -> BinlogPositionTracker:
        """Follows the position while the stream is open, also inside transactions."""
        assert self._emitter is not None
        return self._emitter.tracker

    def restore_transaction(self, stored: StoredBinlogOffset) -> None:
        """Continues the counts of the transaction of a stored offset (``provide.transaction.metadata``)."""
        if self._metadata is not None:
            self._metadata.restore(stored.transaction)

    def skip_to(self, position: BinlogPosition) -> None:
        """Continues there at the next start: a snapshot has everything that is before."""
        self.disconnect()
        self._position = position

    def forget(self) -> None:
        """Gives the position up."""
        self.disconnect()
        self._position = None

    def start(self, server: ServerInfo, position: BinlogPosition, stop: BinlogPosition | None = None) -> None:
        """Starts the stream at a position. With ``stop``, a position of this server, :attr:`is_at_stop` says when it is there.

        Raises the errors of :meth:`BinlogClient.open`.
        """
        start, gtids = start_of(self._sessions.catalog(), server, position, self._settings)
        client = self._sessions.stream(start)
        self._position, self._stop = position, None if stop is None else BinlogMark.at(stop)
        self._emitter = BinlogEventEmitter(
            position,
            gtids,
            client.decoder(),
            self._builder,
            self._tables,
            self._structures,
            self._observers,
            self._metadata,
        )
        self._client = client

    @property
    def is_at_stop(self) -> bool:
        """Whether all changes before ``stop`` were read. False without one."""
        emitter, stop = self._emitter, self._stop
        return emitter is not None and stop is not None and emitter.has_reached(stop)

    def read(self) -> None:
        """Reads what has arrived, or waits for it. :meth:`take_records` returns the records, also after an error.

        Raises the errors of :meth:`BinlogClient.read` and :meth:`BinlogEventEmitter.on_event`.
        """
        client, emitter = self._client, self._emitter
        assert client is not None
        assert emitter is not None
        if (delay_s := self._pace.delay_s()) > 0:
            self._sessions.interrupt.wait(delay_s)
        emitter.reach_mark()
        if not self._pending and not emitter.out and not self.is_at_stop:
            try:
                wait_s = self._settings.poll_interval_s
                self._pending.extend(client.read(self._heartbeat.limit_wait_s(wait_s) if self._has_heartbeats else wait_s))
            except DuplicateServerIdError as e:
                raise self._sessions.explain_duplicate(e) from e
        self._convert(emitter)
        out = emitter.out
        self._pace.start(kinds=out.count_kinds(), is_full=bool(self._pending))
        if self._has_heartbeats and self._heartbeat.is_due:
            out.append(self._heartbeat.beat(emitter.position_offset()))

    @property
    def _has_heartbeats(self) -> bool:
        """Whether the position may be stored."""
        return self._stop is None and self.tracker.is_placed

    def _convert(self, emitter: BinlogEventEmitter) -> None:
        settings, pending, out = self._settings, self._pending, emitter.out
        size = 0
        while pending and len(out) < settings.max_batch and size < settings.max_batch_bytes:
            if self.is_at_stop:
                return
            data = pending.popleft()
            size += len(data)
            emitter.on_event(data)

    def take_records(self) -> Sequence[SourceRecord]:
        """Returns the records that were read and removes them."""
        emitter = self._emitter
        if emitter is None or not emitter.out:
            return []
        return emitter.take_records()

    def position_offset(self) -> Mapping[str, Any] | None:
        """The offset of the position between two transactions; None inside one, before a snapshot, and until the server has said
        which of its files it is in."""
        emitter = self._emitter
        return emitter.position_offset() if emitter is not None and self.can_move and emitter.tracker.is_placed else None

    @property
    def can_move(self) -> bool:
        """Whether the stream may continue elsewhere: it is between two transactions, its records are taken, and no snapshot waits
        for it."""
        emitter = self._emitter
        return emitter is not None and not emitter.out and self._stop is None and not emitter.is_in_transaction

    def disconnect(self) -> None:
        """Closes the connection; the position remains."""
        if self._client is not None:
            self._client.close()
        self._client = None
        self._pending.clear()
        if self._emitter is not None:
            self._position = self._emitter.position
            self._events += self._emitter.events
            self._emitter = None
            self._observers.reset()

    def progress(self) -> Mapping[str, Any]:
        """Numbers for the status of the task."""
        emitter, position = self._emitter, self.position
        if position is None:
            return {}
        found: dict[str, Any] = {
            "events": self._events + (0 if emitter is None else emitter.events),
            "file": position.file,
            "pos": position.position,
        }
        if position.gtids is not None:
            found["gtids"] = position.gtids
        if emitter is not None and emitter.event_time_s is not None:
            found["last_event_s"] = emitter.event_time_s
        return found


def uses_gtids(server: ServerInfo, position: BinlogPosition, settings: MySqlConfig) -> bool:
    """Whether the stream begins at GTIDs instead of a position in a file."""
    return server.uses_gtids and position.gtids is not None and not settings.binlog.ignores_gtids


def start_of(
    connection: MySqlConnection, server: ServerInfo, position: BinlogPosition, settings: MySqlConfig
) -> tuple[BinlogStart, Gtids | None]:
    """Returns where the stream begins, and the transactions that are completed there; None if positions have no GTIDs."""
    gtids = parse_gtids(position.gtids)
    if gtids is None and server.is_mariadb:
        gtids = _gtids_at(connection, position)
    if gtids is None or not uses_gtids(server, position, settings):
        return FilePosition(position.file, position.position), gtids if server.uses_gtids else None
    gtids = read_start_gtids(connection, server, gtids, settings.binlog.source_filter)
    return gtids, gtids


def _gtids_at(connection: MySqlConnection, position: BinlogPosition) -> MariaDbGtidPosition | None:
    """Asks MariaDB for the GTIDs of a position; it knows them as long as it has the file."""
    text = connection.query("SELECT BINLOG_GTID_POS(%s, %s)", (position.file, position.position))[0][0]
    return None if text is None else MariaDbGtidPosition.parse(text)


def _transaction_metadata(settings: MySqlConfig) -> TransactionMetadata | None:
    if not settings.events.transaction_metadata:
        return None

    def name(transaction_id: str, offset: Mapping[str, Any]) -> str:
        return transaction_id

    return TransactionMetadata(settings.topic_prefix, settings.topic_delimiter, settings.events, name)
