"""The interface of offset stores, and the offset reader of connectors and tasks.

A standalone worker stores offsets in a file (:mod:`worker.storage.file_offset_store`), a distributed one in a topic
(:mod:`worker.storage.kafka_offset_store`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from connect.errors import ConnectError, UnreachableError
from worker.model import OffsetEntry

log = logging.getLogger(__name__)

_RETRY_S = 1.0

OffsetPair = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
"""A source partition and its offset; the offset None deletes the partition."""


class OffsetRecord(NamedTuple):
    """A source offset as a record of an offsets topic."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None


class OffsetStore(Protocol):
    """Stores the offsets of all connectors of a worker. Safe from any thread."""

    def get(self, connector: str, partition: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Returns the stored offset, or None."""

    def put(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        """Stores all offsets or none; durable on return. Raises ConnectError."""

    def entries(self, connector: str) -> list[OffsetEntry]:
        """Returns everything stored for one connector."""


class ConnectorOffsetReader:
    """Reads one connector's offsets (:class:`connect.source.OffsetReader`). Waits while the store is unavailable."""

    def __init__(self, store: OffsetStore, connector: str, wait: Callable[[float], bool]) -> None:
        """``wait`` waits that many seconds and returns True to give up."""
        self._store = store
        self._connector = connector
        self._wait = wait
        self._closed = False

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        warned = False
        while not self._closed:
            try:
                return self._store.get(self._connector, partition)
            except UnreachableError as e:
                if self._wait(_RETRY_S):
                    raise
                if not warned:
                    log.warning("Connector %s waits for its offsets: %s", self._connector, e.message)
                    warned = True
        raise ConnectError(f"connector {self._connector} has been stopped: its offsets can no longer be read")

    def offsets(self, partitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
        return [self.offset(partition) for partition in partitions]

    def close(self) -> None:
        """Makes further reads fail: the task of this reader was abandoned."""
        self._closed = True
