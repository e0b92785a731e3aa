"""Reads the stream of the binary log, as a replica does. Events are not decoded here.

The client registers with the server ID of the connector, so that the server lists it (SHOW REPLICAS) and ends an earlier
connection with the same ID. Packets are read in large blocks. COM_BINLOG_DUMP_GTID follows the documentation of MySQL's protocol
and has not been tried with a MySQL server; COM_BINLOG_DUMP, by position and by GTID, has been with MariaDB.
"""

from __future__ import annotations

import math
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pymysql.err import MySQLError

from connect.errors import ConfigError, ConnectError
from connectors.mysql.binlog import BinlogDecoder, GtidSet, MariaDbGtidPosition
from connectors.mysql.connection import MySqlConnection, quote_value
from connectors.mysql.errors import binlog_error, error_number, error_text, lost_error

CHECKSUM: Final = "CRC32"
"""What the client assigns to @master_binlog_checksum: each event has a checksum, if the server writes them."""

_REGISTER, _DUMP, _DUMP_GTID = 0x15, 0x12, 0x1E
_NON_BLOCKING, _ANNOTATE, _THROUGH_GTID = 0x01, 0x02, 0x04
_FIRST_POSITION: Final = 4
_MOST_IN_PACKET: Final = 0xFFFFFF
_BLOCK: Final = 1 << 20
_MOST_POSITION: Final = 0xFFFFFFFF
_MARIADB_CAPABILITY: Final = 4
"""The client understands GTID events; lower values make the server replace them."""
_head = struct.Struct("<IB").unpack_from
_ER_ACCESS_DENIED: Final = 1045


@dataclass(frozen=True, slots=True)
class FilePosition:
    """Start at a position of a file. An empty file name means the oldest file."""

    file: str
    position: int = _FIRST_POSITION

    def __str__(self) -> str:
        return f"{self.file or 'the oldest file'}:{self.position}"


BinlogStart = FilePosition | GtidSet | MariaDbGtidPosition
"""Where the stream begins: at a position, or after executed transactions: MySQL's set, or MariaDB's position."""


@dataclass(frozen=True, slots=True)
class BinlogClientSettings:
    """How the client reads. ``heartbeat_s`` is how often a server without changes sends a heartbeat.

    ``annotates``: MariaDB also sends the statements (ANNOTATE_ROWS); MySQL decides that itself. ``ends_at_end``: the stream ends
    at the end of the log instead of waiting for changes. Timeouts of the network are the server's own if they are 0.
    """

    server_id: int
    heartbeat_s: float = 48.0
    silence_s: float = math.inf
    """A server that sends nothing for this time, not even a heartbeat, is lost. At least two heartbeats."""
    annotates: bool = False
    ends_at_end: bool = False
    net_write_timeout_s: int = 0
    net_read_timeout_s: int = 0


class BinlogClient:
    """A stream of events. Not thread-safe; it owns its connection.

    Use::

        client = BinlogClient.open(connection, FilePosition("binlog.000001"), settings)
        decoder = client.decoder()
        while not client.ended:
            for data in client.read(1.0):
                event = decoder.decode(data)
    """

    def __init__(self, connection: MySqlConnection, start: BinlogStart, settings: BinlogClientSettings) -> None:
        self.ended = False
        self._connection = connection
        self._link = connection.socket
        self._start = start
        self._settings = settings
        self._silence_s = max(settings.silence_s, 2 * settings.heartbeat_s)
        self._buffer = bytearray(_BLOCK)
        self._have = 0
        self._parts: list[bytes] = []
        self._failure: ConnectError | None = None
        self._received_at = time.monotonic()

    @classmethod
    def open(cls, connection: MySqlConnection, start: BinlogStart, settings: BinlogClientSettings) -> BinlogClient:
        """Registers and requests the stream. It takes the connection over, also if it fails.

        Raises ConfigError for a missing privilege and for a position that the protocol cannot express. The first :meth:`read`
        reports a position that the server does not have.
        """
        try:
            client = cls(connection, start, settings)
            for sql in _session_statements(connection, start, settings):
                connection.execute(sql, timeout_s=connection.address.connect_timeout_s)
            client._register()
            with connection.guarded("COM_BINLOG_DUMP", connection.address.connect_timeout_s):
                connection.driver._execute_command(*_dump_command(start, settings, is_mariadb=connection.is_mariadb))
            client._received_at = time.monotonic()
        except BaseException:
            connection.close()
            raise
        return client

    def _register(self) -> None:
        """COM_REGISTER_SLAVE: the host name is for SHOW REPLICAS."""
        host = socket.gethostname().encode()[:60]
        content = struct.pack("<I", self._settings.server_id) + bytes([len(host)]) + host + b"\0\0" + struct.pack("<HII", 0, 0, 0)
        connection = self._connection
        with connection.guarded("COM_REGISTER_SLAVE", connection.address.connect_timeout_s):
            try:
                connection.driver._execute_command(_REGISTER, content)
                connection.driver._read_packet()
            except MySQLError as e:
                if error_number(e) == _ER_ACCESS_DENIED:
                    raise ConfigError(
                        f"user {connection.address.user} of {connection.address.where} may not read the binary log: "
                        f"GRANT REPLICATION SLAVE ON *.* TO '{connection.address.user}'. {error_text(e)}",
                        key="database.user",
                    ) from e
                raise

    def decoder(self) -> BinlogDecoder:
        """Creates a decoder for this stream."""
        file = self._start.file if isinstance(self._start, FilePosition) else ""
        return BinlogDecoder(file=file, master_checksum=CHECKSUM)

    @property
    def thread_id(self) -> int:
        """The server's number for the connection."""
        return self._connection.thread_id

    def read(self, timeout_s: float) -> list[bytes]:
        """Returns the events that arrived: at least one, unless time has passed or the stream has ended.

        Each is the bytes of an event, for :meth:`BinlogDecoder.decode`. Raises WaitInterrupted, ConnectionLostError, and the
        errors of :func:`errors.binlog_error`: PositionLostError, ServerReplacedError, DuplicateServerIdError, and others.
        """
        self._raise_failure()
        deadline = time.monotonic() + timeout_s
        events: list[bytes] = []
        while not events and self._continues():
            count = self._receive()
            if count > 0:
                self._split(events)
                continue
            now = time.monotonic()
            silent_at = self._received_at + self._silence_s
            if now >= silent_at:
                self._fail(f"it has sent nothing for {now - self._received_at:.0f} s, not even a heartbeat")
            if now >= deadline:
                break
            self._link.wait(min(deadline, silent_at))
        if not events:
            self._raise_failure()
        return events

    def _continues(self) -> bool:
        return not self.ended and self._failure is None

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _receive(self) -> int:
        """Receives what has arrived, at most a block; returns the number of bytes."""
        count = 0
        with memoryview(self._buffer) as view:
            while self._have < len(view):
                try:
                    part = self._link.recv_available(view[self._have :])
                except OSError as e:
                    self._fail(str(e), e)
                if part < 0:
                    break
                if part == 0:
                    if not count:
                        self._fail("the server closed the connection")
                    break
                self._have += part
                count += part
        if count:
            self._received_at = time.monotonic()
        return count

    def _fail(self, reason: str, cause: BaseException | None = None) -> None:
        self._failure = lost_error(self._connection.address, reason)
        self.close()
        raise self._failure from cause

    def _split(self, events: list[bytes]) -> None:
        """Appends the complete events, and keeps the rest of the buffer."""
        if self._have >= 4 and (size := 4 + int.from_bytes(self._buffer[:3], "little")) > self._have:
            # Copying a large packet each time that a part of it arrives would take quadratic time.
            self._buffer.extend(bytes(max(0, size - len(self._buffer))))
            return
        data = bytes(memoryview(self._buffer)[: self._have])
        at, end = 0, self._have
        add = events.append
        while end - at > 4:
            word, status = _head(data, at)
            stop = at + 4 + (word & _MOST_IN_PACKET)
            if stop > end:
                break
            if status or stop - at - 4 == _MOST_IN_PACKET or self._parts or stop == at + 4:
                if not self._split_special(data[at + 4 : stop], events):
                    return
            else:
                add(data[at + 5 : stop])
            at = stop
        if end - at == 4 and self._parts and data[at : at + 3] == b"\0\0\0":
            # The empty packet after one of 16 MB.
            self._split_special(b"", events)
            at = end
        self._keep(data, at, end)

    def _keep(self, data: bytes, at: int, end: int) -> None:
        rest = data[at:end]
        needed = _BLOCK
        if len(rest) >= 4:
            needed = max(needed, 4 + int.from_bytes(rest[:3], "little"))
        if needed != len(self._buffer):
            self._buffer = bytearray(needed)
        self._buffer[: len(rest)] = rest
        self._have = len(rest)

    def _split_special(self, payload: bytes, events: list[bytes]) -> bool:
        """Handles a part of an event of 16 MB or more, an error, or the end. Returns whether the stream continues."""
        if self._parts or len(payload) == _MOST_IN_PACKET:
            self._parts.append(payload)
            if len(payload) < _MOST_IN_PACKET:
                events.append(b"".join(self._parts)[1:])
                self._parts = []
            return True
        if payload[:1] == b"\xff":
            number = int.from_bytes(payload[1:3], "little")
            text = payload[3:].decode("utf-8", "replace")
            reason = text[6:] if text.startswith("#") else text
            self._failure = binlog_error(self._connection.address, number, " ".join(reason.split()), str(self._start))
            self.close()
            return False
        if payload[:1] == b"\xfe" and len(payload) < 9:
            if self._settings.ends_at_end:
                self.ended = True
            else:
                self._failure = lost_error(self._connection.address, "the server ended the stream")
            self.close()
            return False
        self._failure = lost_error(self._connection.address, f"it sent a packet that is no event: {payload[:20]!r}")
        self.close()
        return False

    def close(self, over: MySqlConnection | None = None) -> None:
        """Ends the stream. Never raises. The server notices at its next event or heartbeat; over this connection, it is asked to
        end the stream now."""
        if not self._connection.is_closed:
            number = self._connection.thread_id
            self._connection.close()
            if over is not None:
                kill_connection(over, number)


def kill_connection(over: MySqlConnection, number: int) -> None:
    """Asks the server to end a connection of the same user. Raises nothing."""
    try:
        over.execute(f"KILL CONNECTION {number:d}", timeout_s=5.0)
    except Exception:
        return  # it has ended meanwhile, or the server ends it at the next heartbeat


def _session_statements(connection: MySqlConnection, start: BinlogStart, settings: BinlogClientSettings) -> Iterator[str]:
    """Yields what the session sets. Newer servers read variables of the new names, older ones those of the old names."""
    period_ns = max(1_000_000, int(settings.heartbeat_s * 1e9))
    for word in ("master", "source"):
        yield f"SET @{word}_binlog_checksum = '{CHECKSUM}', @{word}_heartbeat_period = {period_ns}"
    if settings.net_write_timeout_s:
        yield f"SET SESSION net_write_timeout = {settings.net_write_timeout_s:d}"
    if settings.net_read_timeout_s:
        yield f"SET SESSION net_read_timeout = {settings.net_read_timeout_s:d}"
    if connection.is_mariadb:
        yield f"SET @mariadb_slave_capability = {_MARIADB_CAPABILITY}"
        if isinstance(start, MariaDbGtidPosition):
            # As with Debezium: a position may be between two GTIDs of the log.
            state = quote_value(str(start))
            yield f"SET @slave_connect_state = {state}, @slave_gtid_strict_mode = 0, @slave_gtid_ignore_duplicates = 0"


def _dump_command(start: BinlogStart, settings: BinlogClientSettings, *, is_mariadb: bool) -> tuple[int, bytes]:
    """Returns the command and its content. Raises ConfigError for a start of the other kind of server and for one too large."""
    flags = _NON_BLOCKING if settings.ends_at_end else 0
    if is_mariadb and settings.annotates:
        flags |= _ANNOTATE
    if isinstance(start, GtidSet):
        if is_mariadb:
            raise _other_kind("MySQL's GTID set", start, "MariaDB")
        data = start.encode()
        head = struct.pack("<HIIQI", flags | _THROUGH_GTID, settings.server_id, 0, _FIRST_POSITION, len(data))
        return _DUMP_GTID, head + data
    if isinstance(start, MariaDbGtidPosition):
        if not is_mariadb:
            raise _other_kind("MariaDB's GTID position", start, "MySQL")
        start = FilePosition("")
    if start.position > _MOST_POSITION:
        raise ConfigError(
            f"the protocol cannot start at {start}: positions have 32 bits. Use GTIDs, or rotate the log and take a new snapshot"
        )
    content = struct.pack("<IHI", start.position, flags, settings.server_id) + start.file.encode()
    return _DUMP, content


def _other_kind(what: str, start: BinlogStart, server: str) -> ConfigError:
    return ConfigError(
        f"the stored position is {what} {str(start)[:100]!r}, but the server is {server}: use the connector class of the server, "
        "and take a new snapshot (delete the connector's offsets)"
    )
