"""Quoting in SQL and replication commands, and queries that take too long."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.pq.abc import PGconn

from connectors.cdc.errors import QueryTimeoutError
from connectors.cdc.interrupt import Interrupt
from connectors.postgres.config import Address
from connectors.postgres.connection import Connection, quote_identifier, quote_literal
from tests.support.waiting import WAIT_S


@given(st.text(max_size=30))
def test_quoted_text_cannot_end_the_quotes(name: str) -> None:
    inside = quote_identifier(name)[1:-1]
    assert '"' not in inside.replace('""', "")
    assert "'" not in quote_literal(name)[1:-1].replace("''", "")


class StuckServer:
    """A libpq connection to a server that takes no more data."""

    def __init__(self) -> None:
        self._own, self._other = socket.socketpair()
        self._own.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self._own.send(bytes(65536))
        self.socket = self._own.fileno()
        self.flushes = 0
        self.is_cancelled = threading.Event()

    def send_query(self, sql: bytes) -> None: ...

    def flush(self) -> int:
        self.flushes += 1
        return 1

    def consume_input(self) -> None: ...

    def get_cancel(self) -> StuckServer:
        return self

    def cancel(self) -> None:
        self.is_cancelled.set()

    def finish(self) -> None:
        self._own.close()
        self._other.close()


def test_a_query_that_cannot_be_sent_in_time_fails_without_keeping_a_core_busy() -> None:
    server, interrupt = StuckServer(), Interrupt()
    connection = Connection(cast(PGconn, server), cast(Address, "postgres@host"), interrupt)
    with pytest.raises(
        QueryTimeoutError, match=r"a query on PostgreSQL at postgres@host took longer than database\.query\.timeout"
    ):
        connection.query("select 1", timeout_s=0.1)
    assert server.is_cancelled.wait(WAIT_S)
    assert server.flushes == 1
    server.finish()
    interrupt.close()
