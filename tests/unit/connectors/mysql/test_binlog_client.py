"""Splitting a stream into events, against a scripted server."""

from __future__ import annotations

import contextlib
import math
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from connect.errors import ConfigError
from connectors.cdc.errors import ConnectionLostError, PositionLostError, WaitInterrupted
from connectors.cdc.interrupt import Interrupt
from connectors.mysql import binlog_client
from connectors.mysql.binlog import GtidSet, MariaDbGtidPosition
from connectors.mysql.binlog_client import BinlogClient, BinlogClientSettings, BinlogStart, FilePosition, _dump_command
from connectors.mysql.config import MySqlAddress
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.interruptible_socket import InterruptibleSocket
from tests.support.waiting import WAIT_S

MOST = 0xFFFFFF


class Driver:
    """What the client needs of PyMySQL after the stream was requested."""

    def __init__(self, link: InterruptibleSocket) -> None:
        self._sock: InterruptibleSocket | None = link

    def thread_id(self) -> int:
        return 1

    @property
    def open(self) -> bool:
        return self._sock is not None

    def _force_close(self) -> None:
        if self._sock is not None:
            self._sock.close()
        self._sock = None


class Stream:
    def __init__(self) -> None:
        self.server, ours = socket.socketpair()
        self.interrupt = Interrupt()
        self._link = InterruptibleSocket(ours, self.interrupt)
        self._threads: list[threading.Thread] = []

    def client(self, **settings: Any) -> BinlogClient:
        driver: Any = Driver(self._link)
        connection = MySqlConnection(driver, MySqlAddress("db", 3306, "cdc", None), self.interrupt, math.inf)
        return BinlogClient(connection, FilePosition("binlog.000007", 123), BinlogClientSettings(1, **settings))

    def send(self, data: bytes, size: int = 1 << 30) -> None:
        def run() -> None:
            with contextlib.suppress(OSError):  # the client may have closed the connection
                for at in range(0, len(data), size):
                    self.server.sendall(data[at : at + size])
                self.server.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=run)
        thread.start()
        self._threads.append(thread)

    def close(self) -> None:
        self._link.close()
        for thread in self._threads:
            thread.join(WAIT_S)
        self.server.close()
        self.interrupt.close()


@pytest.fixture
def stream() -> Iterator[Stream]:
    stream = Stream()
    yield stream
    stream.close()


def packets(*payloads: bytes) -> bytes:
    """Frames payloads; those of 16 MB or more as several packets."""
    framed = []
    for payload in payloads:
        for at in range(0, len(payload) + 1, MOST):
            part = payload[at : at + MOST]
            framed.append(struct.pack("<I", len(part)) + part)
    return b"".join(framed)


END = b"\xfe\x00\x00\x02\x00"


def read_all(client: BinlogClient) -> list[bytes]:
    found: list[bytes] = []
    while not client.ended:
        found += client.read(30)
    return found


@pytest.mark.parametrize("size", [1, 3, 7, 1 << 20])
def test_events_are_split_however_their_bytes_arrive(stream: Stream, size: int) -> None:
    events = [bytes([number]) * (number * 7 % 300 + 19) for number in range(200)]
    stream.send(packets(*(b"\0" + event for event in events), END), size)
    assert read_all(stream.client(ends_at_end=True)) == events


@pytest.mark.parametrize("length", [MOST - 2, MOST - 1, MOST, 2 * MOST - 1, 2 * MOST, 40_000_000])
def test_events_of_16_mb_and_more_are_joined(stream: Stream, length: int) -> None:
    large = b"L" * length
    stream.send(packets(b"\0before" + b"." * 19, b"\0" + large, b"\0after" + b"." * 19, END))
    found = read_all(stream.client(ends_at_end=True))
    assert [len(event) for event in found] == [25, length, 24]
    assert found[1] == large


def test_a_large_event_is_not_copied_for_each_part_of_it(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []

    def copy(source: Any) -> bytes:
        if not isinstance(source, int):
            copied.append(len(source))
        return bytes(source)

    monkeypatch.setattr(binlog_client, "bytes", copy, raising=False)
    event = b"L" * (2 << 20)
    data, part = packets(b"\0" + event), 1 << 14
    client, found = stream.client(), []
    for at in range(0, len(data), part):
        stream.server.sendall(data[at : at + part])
        found += client.read(0)
    assert found == [event]
    assert sum(copied) < 3 * len(event)


def test_every_statement_before_the_stream_has_a_deadline(stream: Stream) -> None:
    deadlines: list[float] = []
    link = stream._link

    class Opening(Driver):
        def note(self, *_: Any, **__: Any) -> None:
            deadlines.append(link.deadline)

        query = _execute_command = _read_packet = note
        _result = Any
        rows = ()

        def get_server_info(self) -> str:
            return "8.4.0"

    driver: Any = Opening(link)
    driver._result = driver
    connection = MySqlConnection(driver, MySqlAddress("db", 3306, "cdc", None), stream.interrupt, math.inf)
    BinlogClient.open(connection, FilePosition("binlog.000007"), BinlogClientSettings(1, net_read_timeout_s=5))
    assert len(deadlines) == 6
    assert math.inf not in deadlines


def test_an_error_comes_after_the_events_before_it(stream: Stream) -> None:
    error = b"\xff" + struct.pack("<H", 1236) + b"#HY000Could not find first log file name in binary log index file"
    stream.send(packets(b"\0" + b"e" * 30, error))
    client = stream.client()
    assert client.read(30) == [b"e" * 30]
    for _ in range(2):
        with pytest.raises(PositionLostError, match=r"no longer has the binary log from binlog\.000007:123"):
            client.read(30)


def test_a_closed_connection_and_an_unexpected_end_are_retriable(stream: Stream) -> None:
    stream.send(packets(b"\0" + b"e" * 30))
    client = stream.client()
    assert client.read(30)
    with pytest.raises(ConnectionLostError, match="closed the connection"):
        client.read(30)


def test_the_end_of_a_stream_that_should_go_on_is_an_error(stream: Stream) -> None:
    stream.send(packets(END))
    client = stream.client()
    with pytest.raises(ConnectionLostError, match="ended the stream"):
        client.read(30)


def test_the_end_of_a_stream_that_should_go_on_comes_after_the_events_before_it(stream: Stream) -> None:
    stream.send(packets(b"\0" + b"e" * 30, END))
    with pytest.raises(ConnectionLostError, match="ended the stream"):
        read_all(stream.client())


@pytest.mark.parametrize("ends_at_end", [True, False])
def test_a_silent_server_is_lost(stream: Stream, ends_at_end: bool) -> None:
    client = stream.client(heartbeat_s=0.001, silence_s=0.005, ends_at_end=ends_at_end)
    with pytest.raises(ConnectionLostError, match="not even a heartbeat"):
        client.read(30)


def test_a_read_ends_at_its_timeout_and_when_interrupted(stream: Stream) -> None:
    client = stream.client()
    assert client.read(0) == []
    stream.interrupt.set()
    with pytest.raises(WaitInterrupted):
        client.read(30)


def test_commands_have_the_protocols_form() -> None:
    settings = BinlogClientSettings(9, annotates=True)
    assert _dump_command(FilePosition("b.000001", 120), settings, is_mariadb=True) == (
        0x12, struct.pack("<IHI", 120, 2, 9) + b"b.000001",
    )  # fmt: skip
    assert _dump_command(MariaDbGtidPosition.parse("0-1-5"), settings, is_mariadb=True) == (0x12, struct.pack("<IHI", 4, 2, 9))
    gtids = GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5")
    assert _dump_command(gtids, BinlogClientSettings(9, ends_at_end=True), is_mariadb=False) == (
        0x1E, struct.pack("<HIIQI", 5, 9, 0, 4, len(gtids.encode())) + gtids.encode(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("start", "is_mariadb", "message"),
    [
        (GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"), True, "MySQL's GTID set .* the server is MariaDB"),
        (MariaDbGtidPosition.parse("0-1-5"), False, "MariaDB's GTID position '0-1-5', but the server is MySQL"),
        (FilePosition("b.1", 1 << 32), False, "positions have 32 bits"),
    ],
)
def test_positions_that_cannot_be_requested_are_rejected(start: BinlogStart, is_mariadb: bool, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _dump_command(start, BinlogClientSettings(9), is_mariadb=is_mariadb)
