"""Reads rows of queries on one connection, in the text protocol, without waiting: see :mod:`connectors.cdc.snapshot.row_stream`.

Values stay the texts that the server sends, or its bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from connect import crash_points
from connect.errors import ConnectError
from connectors.cdc.errors import ConnectionLostError, TablesChangedError
from connectors.databases.mysql.protocol import ResultStream
from connectors.databases.mysql.row_decoder import Decode
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.errors import MySqlServerError
from connectors.mysql.interruptible_socket import DeadlinePassed

BATCH_ROWS = 2_000
BATCH_BYTES = 8 << 20
_CHANGED: Final = (1049, 1051, 1054, 1146, 1412)
"""Unknown database, table, or column; and the definition of a table has changed since the transaction began."""
_NOW: Final = 0.0
"""A deadline that has passed: what has arrived is read, nothing is waited for."""


@dataclass(slots=True)
class MySqlRowBlock:
    """Rows that were read together. ``is_last``: the query has ended."""

    rows: list[list[Any]]
    size_bytes: int
    is_last: bool

    def prepend(self, row: list[Any]) -> None:
        """Adds a row that was read before."""
        self.rows.insert(0, row)


class MySqlRowStream:
    """Reads one query after another.

    Every method may raise ConnectionLostError, MySqlServerError, and TablesChangedError for a table that is not that of the
    transaction's start.
    """

    def __init__(self, connection: MySqlConnection) -> None:
        self.connection = connection
        self.is_lost = False
        """Whether the connection was lost."""
        self._sql = ""
        self._stream: ResultStream | None = None
        self._decode: Decode | None = None
        self._rows: list[list[Any]] = []
        self._size_bytes = 0

    def start(self, sql: str, decode: Decode) -> None:
        """Starts to read the rows of a SELECT; ``decode`` decodes them."""
        self._rows, self._size_bytes, self._sql, self._decode = [], 0, sql, decode
        with self._translated():
            self._stream = self.connection.stream(sql)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except ConnectionLostError:
            self.is_lost = True
            raise
        except MySqlServerError as e:
            raise explain_changed_table(e) from e

    def fileno(self) -> int:
        return self.connection.socket.fileno()

    @property
    def has_rows(self) -> bool:
        return bool(self._rows)

    @property
    def _is_full(self) -> bool:
        assert self._stream is not None
        return self._stream.ended or len(self._rows) >= BATCH_ROWS or self._size_bytes >= BATCH_BYTES

    def receive(self) -> bool:
        """Receives rows that have arrived, without waiting; returns whether :meth:`take` returns a whole block, or the last."""
        if not self._is_full:
            with self._translated(), self.connection.guarded(self._sql):
                self._receive()
        return self._is_full

    def _receive(self) -> None:
        stream, decode, rows = self._stream, self._decode, self._rows
        assert stream is not None
        assert decode is not None
        link = self.connection.socket
        ignored: list[Any] = []
        while True:
            begin = stream.at
            stream.at = decode(stream.data, stream.text, begin, BATCH_ROWS - len(rows), rows, ignored)
            self._size_bytes += stream.at - begin
            if self._is_full:
                return
            if not stream.awaits_large_packet:
                link.deadline = _NOW
            try:
                stream.advance()
            except DeadlinePassed:
                return
            finally:
                link.deadline = float("inf")

    def take(self) -> MySqlRowBlock:
        """Returns the rows received since the last call."""
        crash_points.point("mysql.snapshot")
        assert self._stream is not None
        rows, size = self._rows, self._size_bytes
        self._rows, self._size_bytes = [], 0
        return MySqlRowBlock(rows, size, self._stream.ended)

    def close(self) -> None:
        """Closes the connection. May be called twice."""
        self.connection.close()


def explain_changed_table(error: MySqlServerError) -> ConnectError:
    """The error for a statement that reads a table: TablesChangedError if it is not that of the transaction's start."""
    if error.number not in _CHANGED:
        return error
    return TablesChangedError(f"a table changed after the snapshot began, so a new one is needed: {error.message}")
