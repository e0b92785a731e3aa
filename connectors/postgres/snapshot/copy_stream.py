"""Reads rows with COPY on one connection.

The server sends one row per CopyData message. Rows are collected, decoded as one block of text, and split; escapes and nulls are
handled only in lines with a backslash (see schema/row_decoder.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from connect import crash_points
from connectors.cdc.errors import ConnectionLostError
from connectors.postgres.connection import Connection
from connectors.postgres.snapshot.text_batches import Traits

BATCH_ROWS = 2_000
BATCH_BYTES = 8 << 20


@dataclass(slots=True)
class Block:
    """Lines that were read together. ``is_last``: the COPY has ended."""

    rows: list[str]
    traits: Traits
    size_bytes: int
    is_last: bool

    def prepend(self, row: str) -> None:
        """Adds a line that was read before."""
        self.rows.insert(0, row)
        self.traits |= Traits.of(row.encode())


class CopyStream:
    """Reads one COPY after another. Every method may raise ConnectionLostError."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._parts: list[memoryview] = []
        self._size_bytes = 0
        self._has_ended = False
        self.is_lost = False
        """Whether the connection was lost."""

    def start(self, statement: str) -> None:
        """Starts to read the rows of a SELECT. Raises ServerError."""
        self._parts, self._size_bytes, self._has_ended = [], 0, False
        with self._noticing_loss():
            self.connection.query(f"COPY ({statement}) TO STDOUT")

    @contextlib.contextmanager
    def _noticing_loss(self) -> Iterator[None]:
        try:
            yield
        except ConnectionLostError:
            self.is_lost = True
            raise

    @property
    def is_full(self) -> bool:
        """Whether :meth:`take` returns a whole block, or the last one."""
        return self._has_ended or len(self._parts) >= BATCH_ROWS or self._size_bytes >= BATCH_BYTES

    @property
    def has_rows(self) -> bool:
        return bool(self._parts)

    def fileno(self) -> int:
        """What can be polled for rows. Raises ConnectionLostError."""
        try:
            return int(self.connection.pgconn.socket)
        except Exception as e:
            raise self.connection.lost_error() from e

    def close(self) -> None:
        """Closes the connection. May be called twice."""
        self.connection.close()

    def receive(self) -> bool:
        """Receives rows that have arrived, without waiting; returns :attr:`is_full`."""
        if not self.is_full:
            with self._noticing_loss():
                self._receive()
        return self.is_full

    def _receive(self) -> None:
        pgconn = self.connection.pgconn
        get, parts, size = pgconn.get_copy_data, self._parts, self._size_bytes
        add = parts.append
        has_consumed = False
        try:
            while len(parts) < BATCH_ROWS and size < BATCH_BYTES and not self._has_ended:
                length, view = get(1)
                if length > 0:
                    add(view)
                    size += length
                elif length < 0:
                    self._has_ended = True
                elif has_consumed:
                    break
                else:
                    pgconn.consume_input()
                    has_consumed = True
        except Exception as e:
            if e.__class__.__module__.startswith("psycopg"):
                raise self.connection.lost_error() from e
            raise
        self._size_bytes = size
        if self._has_ended:
            self.connection.finish_copy()

    def take(self) -> Block:
        """Returns the rows received since the last call."""
        crash_points.point("postgres.snapshot")
        data = b"".join(self._parts)
        size, self._parts, self._size_bytes = self._size_bytes, [], 0
        lines = data.decode().split("\n")
        lines.pop()
        return Block(lines, Traits.of(data), size, self._has_ended)
