"""Rows that a connection reads, a block at a time, so that one thread serves several connections."""

from __future__ import annotations

import math
import select
import time
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from connectors.cdc.errors import ConnectionLostError, WaitInterrupted
from connectors.cdc.interrupt import Interrupt


class RowBlock(Protocol):
    """Rows that were read together. What a row is, the source knows."""

    @property
    def rows(self) -> list[Any]: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def is_last(self) -> bool:
        """Whether no row follows."""

    def prepend(self, row: Any) -> None:
        """Adds a row that was read before."""


class RowStream(Protocol):
    """A connection that reads the rows of one query after another. Every method may raise ConnectionLostError."""

    is_lost: bool
    """Whether the connection was lost."""

    def fileno(self) -> int:
        """What can be polled for rows. Raises ConnectionLostError."""

    @property
    def has_rows(self) -> bool:
        """Whether :meth:`take` returns rows now."""

    def receive(self) -> bool:
        """Receives rows that have arrived, without waiting; returns whether :meth:`take` returns a whole block, or the last."""

    def take(self) -> RowBlock:
        """Returns the rows received since the last call."""

    def close(self) -> None:
        """Closes the connection. May be called twice."""


def wait_for_rows(streams: Sequence[RowStream], interrupt: Interrupt, seconds: float) -> None:
    """Waits until a stream can receive something, or for some seconds. Raises WaitInterrupted."""
    poll = select.poll()
    poll.register(interrupt.fileno(), select.POLLIN)
    for stream in streams:
        try:
            poll.register(stream.fileno(), select.POLLIN)
        except ConnectionLostError:
            stream.is_lost = True
            raise
    if not interrupt.is_set:
        poll.poll(math.ceil(max(0.0, seconds) * 1000))
    if interrupt.is_set:
        raise WaitInterrupted


Stream = TypeVar("Stream", bound=RowStream)


def first_full(streams: Sequence[Stream], interrupt: Interrupt, seconds: float) -> Stream | None:
    """Receives until a stream is full; after some seconds, returns one that has rows, or None."""
    deadline = time.monotonic() + seconds
    while True:
        for stream in streams:
            if stream.receive():
                return stream
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            return next((stream for stream in streams if stream.has_rows), None)
        wait_for_rows(streams, interrupt, remaining_s)
