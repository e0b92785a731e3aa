"""Where source offsets live: the seam between tasks and a store, and its reader's side.

Standalone keeps them in a file (:mod:`worker.storage.file_offset_store`); a distributed worker will keep them in a topic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from connect.errors import ConnectError, UnreachableError
from worker.model import OffsetEntry

log = logging.getLogger(__name__)

_ASK_AGAIN_S = 1.0

OffsetPair = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
"""A source partition and its offset; the offset None forgets the partition."""


class OffsetRecord(NamedTuple):
    """A source offset as a record of an offsets topic."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None


class OffsetStore(Protocol):
    """Holds offsets of all connectors of a worker. Safe from any thread."""

    def get(self, connector: str, partition: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """The stored offset, or None."""

    def put(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        """Stores offsets; durable on return, all of them or none. Raises ConnectError."""

    def entries(self, connector: str) -> list[OffsetEntry]:
        """Everything stored for one connector."""


class ConnectorOffsetReader:
    """Reads one connector's offsets: what connectors and tasks are given (:class:`connect.source.OffsetReader`).

    A store that does not answer is waited for.
    """

    def __init__(self, store: OffsetStore, connector: str, wait: Callable[[float], bool]) -> None:
        """``wait`` pauses that many seconds and says True to give up."""
        self._store = store
        self._connector = connector
        self._wait = wait
        self._closed = False

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        told = False
        while not self._closed:
            try:
                return self._store.get(self._connector, partition)
            except UnreachableError as e:
                if self._wait(_ASK_AGAIN_S):
                    raise
                if not told:
                    log.warning("Connector %s waits for its offsets: %s", self._connector, e.message)
                    told = True
        raise ConnectError(f"connector {self._connector} has been stopped: its offsets can no longer be read")

    def offsets(self, partitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
        return [self.offset(partition) for partition in partitions]

    def close(self) -> None:
        """Further reads fail: the task behind this reader was abandoned."""
        self._closed = True
