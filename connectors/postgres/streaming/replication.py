"""The logical replication stream: starts it, reads messages, and reports status.

Messages are the bytes of CopyData messages; the event emitter decodes them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Sized

from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus

from connect.errors import ConfigError, ConnectError
from connectors.cdc.errors import ConnectionLostError
from connectors.postgres.config import SlotSettings
from connectors.postgres.connection import Connection, quote_identifier, quote_literal
from connectors.postgres.errors import ServerError, SlotSynchronizedError, statement_error
from connectors.postgres.offsets import format_lsn
from connectors.postgres.streaming.flush_lsn import FlushTracker
from connectors.postgres.streaming.flush_timeout import FlushTimeout
from connectors.postgres.streaming.pgoutput import POSTGRES_EPOCH_US

log = logging.getLogger(__name__)

_FIRST_WITH_MESSAGES = 140_000
"""The first version whose pgoutput sends logical decoding messages."""

_FIRST_WITH_SYNCHRONIZED_SLOTS = 170_000
_NOT_IN_PREREQUISITE_STATE = "55000"

HEADER_SIZE = 25
"""Size of the header before the plugin's message: 'w', start LSN, end LSN, the server's clock."""

_KEEPALIVE = struct.Struct("!QqB").unpack_from
_status = struct.Struct("!cQQQqB").pack
_XLOG_DATA, _KEEP = b"wk"
_TRANSACTION_LIMITS = b"BC"
"""Messages of pgoutput that begin or end a transaction."""

OnData = Callable[[bytes], None]
OnKeepalive = Callable[[int], None]


class SilenceMonitor:
    """Notices a connection that is dead without an error: the server is asked for an answer after half of ``timeout_s`` seconds,
    and does not send anything for the other half. Time in which nobody reads does not count. ``clock`` returns seconds."""

    def __init__(self, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._half_s = timeout_s / 2
        self._clock = clock
        self._heard_at = clock()
        self._asked_at: float | None = None

    def heard(self) -> None:
        """Something has arrived."""
        self._heard_at, self._asked_at = self._clock(), None

    def should_ask(self) -> bool:
        """Whether to ask for an answer now, if there was nothing to read. Returns True once."""
        now = self._clock()
        if not self._half_s or self._asked_at is not None or now - self._heard_at < self._half_s:
            return False
        self._asked_at = now
        return True

    @property
    def is_over(self) -> bool:
        """Whether the server has not answered in time."""
        return self._asked_at is not None and self._clock() - self._asked_at >= self._half_s


class ReplicationStream:
    """A running stream. Only one thread may call ``read``. A keepalive thread reports status while nobody reads (a paused task,
    a slow broker), because the server ends a session that is silent for wal_sender_timeout."""

    def __init__(
        self,
        connection: Connection,
        settings: SlotSettings,
        flush_tracker: FlushTracker,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._silence = SilenceMonitor(settings.receive_timeout_s, clock)
        self._settings = settings
        self._flush_timeout = FlushTimeout(settings, clock)
        self._flush_tracker = flush_tracker
        self._received = flush_tracker.confirmed_lsn
        self._last_status = time.monotonic()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._keepalive_thread = threading.Thread(
            target=self._send_keepalives, name=f"postgres-keeper-{settings.name}", daemon=True
        )
        self.server_lsn = flush_tracker.confirmed_lsn
        self._ahead: bytes | None = None
        """A message that was received already, which the next read passes on first."""

    @property
    def has_more(self) -> bool:
        """Whether the last read has ended at a limit, and more changes had arrived."""
        return self._ahead is not None

    def start(self, start_lsn: int) -> None:
        """Starts at a position, or at the slot's confirmed position if that is later.

        Raises SlotInUseError, SlotSynchronizedError, ConfigError for a missing publication, and ConnectError otherwise.
        """
        settings = self._settings
        options = {
            "proto_version": "1",
            "publication_names": quote_identifier(settings.publication),
            **dict(settings.plugin_options),
        }
        if self._connection.pgconn.server_version >= _FIRST_WITH_MESSAGES:
            options["messages"] = "true"  # always: offsets count messages, and must mean the same after a restart
        listed = ", ".join(f"{quote_identifier(name)} {quote_literal(value)}" for name, value in options.items())
        command = f"START_REPLICATION SLOT {quote_identifier(settings.name)} LOGICAL {format_lsn(start_lsn)} ({listed})"
        try:
            self._connection.query(command)
        except ServerError as e:
            if e.sqlstate == _NOT_IN_PREREQUISITE_STATE and self._is_synchronized():
                raise SlotSynchronizedError(f"{e.message}; waiting until the standby is promoted") from e
            raise self._explain(e) from e
        self._keepalive_thread.start()
        log.info("streaming from slot %s at %s", settings.name, format_lsn(start_lsn))

    def _explain(self, error: ServerError) -> ConnectError:
        if error.sqlstate == "42704" and "publication" in error.message:
            return ConfigError(
                f"publication {self._settings.publication} does not exist, or did not exist when slot {self._settings.name} "
                f"was created: create the publication, then drop and recreate the slot. {error.message}",
                key="publication.name",
            )
        return error

    def _is_synchronized(self) -> bool:
        """Whether the slot is one that a standby keeps for a failover. It stays marked after the promotion."""
        if self._connection.pgconn.server_version < _FIRST_WITH_SYNCHRONIZED_SLOTS:
            return False
        rows = self._connection.query(
            f"select synced from pg_replication_slots where slot_name = {quote_literal(self._settings.name)}"
        )
        return bool(rows) and rows[0][0] == "t"

    def read(self, on_data: OnData, on_keepalive: OnKeepalive, out: Sized, max_records: int, max_bytes: int) -> bool:
        """Passes on received messages, without waiting, until ``out`` has ``max_records`` or the messages ``max_bytes``. Returns
        whether there were any.

        Then passes on ends and beginnings of transactions, up to the next content, so that :attr:`has_more` is certain.

        Raises ConnectionLostError if the server ended the stream, or is silent although it was asked for an answer.
        """
        with self._lock:
            pgconn = self._connection.pgconn
            get = pgconn.get_copy_data
            found = fresh = False
            received = 0
            try:
                if (ahead := self._ahead) is not None:
                    self._ahead, found, received = None, True, len(ahead)
                    on_data(ahead)
                while True:
                    size, view = get(1)
                    if size > 0:
                        data = view.obj
                        if data.__class__ is not bytes:
                            data = bytes(view)
                        if data[0] == _XLOG_DATA:
                            is_full = len(out) >= max_records or received >= max_bytes
                            if is_full and data[HEADER_SIZE] not in _TRANSACTION_LIMITS:
                                self._ahead = data
                                break
                            on_data(data)
                        elif data[0] == _KEEP:
                            self._on_keepalive(data, on_keepalive)
                        found = True
                        received += size
                    elif size == 0:
                        if fresh:
                            break
                        pgconn.consume_input()
                        fresh = True
                        continue
                    else:
                        raise self._end_error()
                    fresh = False
            except ConnectError:
                raise
            except OSError as e:
                raise self._connection.lost_error() from e
            except Exception as e:
                if pgconn.status == ConnStatus.BAD or e.__class__.__module__.startswith("psycopg"):
                    raise self._connection.lost_error() from e
                raise
            if found:
                self._silence.heard()
            elif self._silence.should_ask():
                self._send_status(want_reply=True)
            if time.monotonic() - self._last_status >= self._settings.status_interval_s:
                self._send_status()
            if self._flush_timeout.is_pending:
                self._check_flush()
            return found

    def _check_flush(self) -> None:
        """Sends what the network did not take before. Raises ConnectError after ``lsn.flush.timeout.ms``."""
        try:
            self._flush_timeout.sent(0, complete=not self._connection.pgconn.flush())
        except Exception as e:
            raise self._connection.lost_error() from e
        self._flush_timeout.check()

    def wait(self, seconds: float) -> bool:
        """Waits for data from the server; returns False after a timeout. Raises WaitInterrupted and ConnectionLostError."""
        readable = self._connection.wait(seconds)
        if readable:
            self._silence.heard()  # perhaps only a part of a large message
        elif self._silence.is_over:
            raise ConnectionLostError(
                f"PostgreSQL at {self._connection.address} has sent nothing for {self._settings.receive_timeout_s:g} s "
                "(wal.receiver.timeout.ms)"
            )
        return readable

    def _on_keepalive(self, data: bytes, on_keepalive: OnKeepalive) -> None:
        wal_end, _, reply = _KEEPALIVE(data, 1)
        self.server_lsn = max(self.server_lsn, wal_end)
        self._received = max(self._received, wal_end)
        on_keepalive(wal_end)
        if reply:
            # Asked for at a shutdown too: the server waits until it knows that everything has arrived. Without a flush LSN it
            # takes the written one for that, and confirms nothing.
            self._send_status(confirm=False)

    def send_status(self, *, want_reply: bool = False) -> None:
        """Reports the status immediately; ``want_reply`` requests a keepalive with the server's position."""
        with self._lock:
            self._send_status(want_reply)

    def _send_status(self, want_reply: bool = False, *, confirm: bool = True) -> None:
        # Promise 1: the server may discard WAL up to this LSN, so report only stored offsets. 0 confirms nothing.
        flushed = self._flush_tracker.confirmed_lsn if confirm and self._settings.confirms else 0
        written = max(self._received, flushed)
        clock = time.time_ns() // 1000 - POSTGRES_EPOCH_US
        try:
            self._connection.pgconn.put_copy_data(_status(b"r", written, flushed, flushed, clock, want_reply))
            self._flush_timeout.sent(flushed, complete=not self._connection.pgconn.flush())
        except Exception as e:
            raise self._connection.lost_error() from e
        self._last_status = time.monotonic()

    def _send_keepalives(self) -> None:
        interval = self._settings.status_interval_s
        while not self._ended.wait(interval):
            if time.monotonic() - self._last_status < interval or not self._lock.acquire(timeout=interval):
                continue
            try:
                self._send_status()
            except ConnectError:
                return  # the reader gets the same error and reports it
            finally:
                self._lock.release()

    def _end_error(self) -> ConnectError:
        """The error that explains why the stream ended."""
        connection = self._connection
        result = connection.pgconn.get_result()
        if result is not None and result.status == ExecStatus.FATAL_ERROR:
            state = (result.error_field(DiagnosticField.SQLSTATE) or b"").decode()
            message = (result.error_field(DiagnosticField.MESSAGE_PRIMARY) or b"").decode("utf-8", "replace")
            detail = (result.error_field(DiagnosticField.MESSAGE_DETAIL) or b"").decode("utf-8", "replace")
            if state:
                failure = statement_error(connection.address, state, message, detail, "to stream")
                return self._explain(failure) if isinstance(failure, ServerError) else failure
        return connection.lost_error()

    def disconnect(self) -> None:
        """Ends the session on the server, from any thread; the reader gets ConnectionLostError.

        A server process that waits until its data is read ends only when the socket is closed. libpq owns the socket's number, so
        a closed one takes its place.
        """
        with self._lock, contextlib.suppress(Exception):
            if not self._ended.is_set():
                number = self._connection.pgconn.socket
                with socket.socket(fileno=os.dup(number)) as connected:
                    connected.shutdown(socket.SHUT_RDWR)  # wakes a reader that waits
                closed, other = socket.socketpair()
                other.close()
                with closed:
                    os.dup2(closed.fileno(), number, inheritable=False)

    def close(self) -> None:
        """Ends the stream and its keepalive thread. May be called twice, even if ``start`` failed."""
        self._ended.set()
        if self._keepalive_thread.is_alive():
            self._keepalive_thread.join(timeout=5)
        with self._lock:
            self._connection.close()
