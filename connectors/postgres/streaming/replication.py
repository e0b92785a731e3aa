"""The logical replication stream: starts it, reads it, answers it.

Messages come as the bytes of a CopyData message; what is in them is streaming.py's business.
"""

from __future__ import annotations

import logging
import struct
import threading
import time
from collections.abc import Callable, Sized

from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus

from connect.errors import ConfigError, ConnectError
from connectors.postgres.config import SlotSettings
from connectors.postgres.connection import Connection, literal, quoted
from connectors.postgres.errors import ServerError, server_failure
from connectors.postgres.offsets import format_lsn
from connectors.postgres.streaming.flush_lsn import Confirmation
from connectors.postgres.streaming.pgoutput import POSTGRES_EPOCH_US

log = logging.getLogger(__name__)

HEADER = 25
"""Bytes before the plugin's message: 'w', start LSN, end LSN, the server's clock."""

_KEEPALIVE = struct.Struct("!QqB").unpack_from
_status = struct.Struct("!cQQQqB").pack
_XLOG_DATA, _KEEP = b"wk"

OnData = Callable[[bytes], None]
OnKeepalive = Callable[[int], None]


class ReplicationStream:
    """A running stream. ``read`` is for one thread; a keeper thread of its own answers the server while nobody reads (a paused
    task, a slow broker), for the server ends a session that is silent for wal_sender_timeout."""

    def __init__(self, connection: Connection, settings: SlotSettings, confirmation: Confirmation) -> None:
        self._connection = connection
        self._settings = settings
        self._confirmation = confirmation
        self._received = confirmation.confirmed
        self._last_status = time.monotonic()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name=f"postgres-keeper-{settings.name}", daemon=True)
        self.server_lsn = confirmation.confirmed

    def start(self, start_lsn: int) -> None:
        """Starts at a position; the server goes on from its own confirmed position if that is later.

        Raises SlotInUseError, ConfigError for a publication that is not there, ConnectError for others.
        """
        settings = self._settings
        options = {"proto_version": "1", "publication_names": quoted(settings.publication), **dict(settings.plugin_options)}
        listed = ", ".join(f"{quoted(name)} {literal(value)}" for name, value in options.items())
        command = f"START_REPLICATION SLOT {quoted(settings.name)} LOGICAL {format_lsn(start_lsn)} ({listed})"
        try:
            self._connection.query(command)
        except ServerError as e:
            raise self._explained(e) from e
        self._keeper.start()
        log.info("streaming from slot %s at %s", settings.name, format_lsn(start_lsn))

    def _explained(self, error: ServerError) -> ConnectError:
        if error.sqlstate == "42704" and "publication" in error.message:
            return ConfigError(
                f"publication {self._settings.publication} does not exist, or did not yet when slot {self._settings.name} "
                "was made: "
                f"create it and make the slot anew (a slot cannot look back). {error.message}",
                key="publication.name",
            )
        return error

    def read(self, on_data: OnData, on_keepalive: OnKeepalive, out: Sized, most: int) -> bool:
        """Hands over the messages that have arrived, without waiting, until ``out`` has ``most``. Returns whether there were any.

        Raises ConnectionLostError when the server ended the stream.
        """
        with self._lock:
            pgconn = self._connection.pgconn
            get = pgconn.get_copy_data
            found = fresh = False
            try:
                while len(out) < most:
                    size, view = get(1)
                    if size > 0:
                        found = True
                        data = view.obj
                        if data.__class__ is not bytes:
                            data = bytes(view)
                        if data[0] == _XLOG_DATA:
                            on_data(data)
                        elif data[0] == _KEEP:
                            self._on_keepalive(data, on_keepalive)
                    elif size == 0:
                        if fresh:
                            break
                        pgconn.consume_input()
                        fresh = True
                        continue
                    else:
                        raise self._end()
                    fresh = False
            except ConnectError:
                raise
            except OSError as e:
                raise self._connection.lost() from e
            except Exception as e:
                if pgconn.status == ConnStatus.BAD or e.__class__.__module__.startswith("psycopg"):
                    raise self._connection.lost() from e
                raise
            if time.monotonic() - self._last_status >= self._settings.status_interval_s:
                self._send_status()
            return found

    def wait(self, seconds: float) -> bool:
        """Waits for the server to send something; False when the time is up. Raises Interrupted."""
        return self._connection.wait(seconds)

    def _on_keepalive(self, data: bytes, on_keepalive: OnKeepalive) -> None:
        wal_end, _, reply = _KEEPALIVE(data, 1)
        self.server_lsn = max(self.server_lsn, wal_end)
        self._received = max(self._received, wal_end)
        on_keepalive(wal_end)
        if reply:
            self._send_status()

    def send_status(self, *, want_reply: bool = False) -> None:
        """Reports now, rather than with the next keep-alive; ``want_reply`` asks where the server is."""
        with self._lock:
            self._send_status(want_reply)

    def _send_status(self, want_reply: bool = False) -> None:
        # Promise 1: the server may drop its WAL up to here, so it is only what the confirmation book says is stored. 0 tells
        # nothing.
        flushed = self._confirmation.confirmed if self._settings.confirms else 0
        written = max(self._received, flushed)
        clock = time.time_ns() // 1000 - POSTGRES_EPOCH_US
        try:
            self._connection.pgconn.put_copy_data(_status(b"r", written, flushed, flushed, clock, want_reply))
            self._connection.pgconn.flush()
        except Exception as e:
            raise self._connection.lost() from e
        self._last_status = time.monotonic()

    def _keep(self) -> None:
        interval = self._settings.status_interval_s
        while not self._ended.wait(interval):
            if time.monotonic() - self._last_status < interval or not self._lock.acquire(timeout=interval):
                continue
            try:
                self._send_status()
            except ConnectError:
                return  # the reader finds the same, and says so
            finally:
                self._lock.release()

    def _end(self) -> ConnectError:
        """Why the stream is over."""
        connection = self._connection
        result = connection.pgconn.get_result()
        if result is not None and result.status == ExecStatus.FATAL_ERROR:
            state = (result.error_field(DiagnosticField.SQLSTATE) or b"").decode()
            message = (result.error_field(DiagnosticField.MESSAGE_PRIMARY) or b"").decode("utf-8", "replace")
            detail = (result.error_field(DiagnosticField.MESSAGE_DETAIL) or b"").decode("utf-8", "replace")
            if state:
                failure = server_failure(connection.address, state, message, detail, "to stream")
                return self._explained(failure) if isinstance(failure, ServerError) else failure
        return connection.lost()

    def close(self) -> None:
        """Ends the stream and its keeper. May be called twice, also when ``start`` failed."""
        self._ended.set()
        if self._keeper.is_alive():
            self._keeper.join(timeout=5)
        self._connection.close()
