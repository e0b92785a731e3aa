"""Waits of connections end, whatever the other side does."""

from __future__ import annotations

import contextlib
import math
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from connect.errors import UnreachableError
from connectors.cdc.errors import ConnectionLostError, WaitInterrupted
from connectors.cdc.interrupt import Interrupt
from connectors.mysql.config import MySqlAddress, TlsSettings
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.interruptible_socket import DeadlinePassed, InterruptibleSocket, open_socket
from tests.support.waiting import WAIT_S
from tests.unit.connectors.mysql.test_binlog_client import Driver


@pytest.fixture
def interrupt() -> Iterator[Interrupt]:
    interrupt = Interrupt()
    yield interrupt
    interrupt.close()


class Pair:
    """A connection, and the server's end of it."""

    def __init__(self, interrupt: Interrupt) -> None:
        self.server, ours = socket.socketpair()
        self.link = InterruptibleSocket(ours, interrupt)
        driver: Any = Driver(self.link)
        self.connection = MySqlConnection(driver, MySqlAddress("db", 3306, "cdc", None), interrupt, math.inf)

    def close(self) -> None:
        self.link.close()
        self.server.close()


@pytest.fixture
def pair(interrupt: Interrupt) -> Iterator[Pair]:
    pair = Pair(interrupt)
    yield pair
    pair.close()


@pytest.mark.parametrize("error", [ValueError("a bug"), AttributeError("a bug"), RuntimeError("a bug")])
def test_errors_of_the_connectors_own_code_are_no_lost_connection(pair: Pair, error: Exception) -> None:
    with pytest.raises(type(error), match="a bug"), pair.connection.guarded("SELECT 1"):
        raise error
    assert pair.link.deadline == math.inf


def test_a_reset_connection_is_lost_while_it_is_idle(pair: Pair) -> None:
    pair.link.sendall(b"unread")
    pair.server.close()
    with pytest.raises(ConnectionLostError, match="reset by peer"):
        pair.connection.wait_idle(WAIT_S)
    assert pair.connection.is_closed


def test_stopping_a_stream_ends_at_a_deadline(pair: Pair) -> None:
    deadlines: list[float] = []

    class Rows:
        def stop(self, kill: Any) -> None:
            deadlines.append(pair.link.deadline)

    rows: Any = Rows()
    pair.connection.stop(rows)
    assert deadlines[0] < math.inf
    assert pair.link.deadline == math.inf
    pair.connection.close()
    pair.connection.stop(rows)


def test_a_tls_handshake_ends_at_its_deadline(pair: Pair) -> None:
    pair.link.deadline = time.monotonic() + 0.01
    with pytest.raises(DeadlinePassed):
        pair.link.start_tls(ssl.create_default_context(), "db")


@contextlib.contextmanager
def listening(address: str, port: int = 0, *, backlog: int = 10) -> Iterator[socket.socket]:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address, port))
        server.listen(backlog)
        yield server


def test_a_server_that_accepts_and_says_nothing_is_unreachable(interrupt: Interrupt) -> None:
    with listening("127.0.0.1") as server:
        address = MySqlAddress("127.0.0.1", server.getsockname()[1], "cdc", None, TlsSettings("disabled"))
        with pytest.raises(UnreachableError, match=r"no answer within connect\.timeout\.ms \(0\.05 s\)"):
            MySqlConnection.open(address, interrupt, timeout_s=0.05)


class HangingResolver:
    """A name server that does not answer."""

    def __init__(self) -> None:
        self.asked, self.released = threading.Event(), threading.Event()

    def getaddrinfo(self, *_: Any, **__: Any) -> Any:
        self.asked.set()
        self.released.wait(WAIT_S)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[HangingResolver]:
    resolver = HangingResolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver.getaddrinfo)
    yield resolver
    resolver.released.set()
    for thread in threading.enumerate():
        if thread.name == "mysql-resolve":
            thread.join(WAIT_S)


def test_looking_up_a_name_ends_at_the_connect_timeout(interrupt: Interrupt, resolver: HangingResolver) -> None:
    with pytest.raises(UnreachableError, match=r"no answer within connect\.timeout\.ms"):
        MySqlConnection.open(MySqlAddress("db", 3306, "cdc", None), interrupt, timeout_s=0.05)


def test_looking_up_a_name_ends_when_the_task_stops(interrupt: Interrupt, resolver: HangingResolver) -> None:
    def stop() -> None:
        assert resolver.asked.wait(WAIT_S)
        interrupt.set()

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(WaitInterrupted):
        MySqlConnection.open(MySqlAddress("db", 3306, "cdc", None), interrupt, timeout_s=WAIT_S)
    thread.join(WAIT_S)


def test_a_name_that_cannot_be_resolved_is_unreachable(interrupt: Interrupt, resolver: HangingResolver) -> None:
    resolver.released.set()
    with pytest.raises(UnreachableError, match="Temporary failure in name resolution"):
        MySqlConnection.open(MySqlAddress("db", 3306, "cdc", None), interrupt)


def test_an_address_that_does_not_answer_leaves_time_for_the_next_one(interrupt: Interrupt) -> None:
    with listening("127.0.0.2", backlog=0) as silent, contextlib.ExitStack() as opened:
        port = silent.getsockname()[1]
        # Further connections are dropped while the backlog is full.
        for _ in range(8):
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(("127.0.0.2", port))
        with pytest.raises(DeadlinePassed):
            open_socket(["127.0.0.2"], port, time.monotonic() + 0.05, interrupt, keep_alive=False)
        deadline = time.monotonic() + 2.0
        with listening("127.0.0.3", port):
            link = open_socket(["127.0.0.2", "127.0.0.3"], port, deadline, interrupt, keep_alive=True)
            assert link._link.getpeername() == ("127.0.0.3", port)
            assert link.deadline == deadline
            link.close()
