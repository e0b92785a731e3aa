"""Source offsets of a connector with its own offsets topic (``offsets.storage.topic``, KIP-618).

Its own topic takes precedence; the worker's topic has a copy, so that a connector continues where it was if it gets its own topic
or gives it up (Apache's ``ConnectorOffsetBackingStore``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from connect.errors import ConnectError
from worker.kafka.log_writer import Written
from worker.model import OffsetEntry
from worker.storage.offset_codec import partition_id
from worker.storage.offset_store import OffsetPair, OffsetRecord, OffsetStore

log = logging.getLogger(__name__)


class TopicOffsetStore(OffsetStore, Protocol):
    """Source offsets in a topic (:class:`worker.storage.kafka_offset_store.OffsetTopic`)."""

    def refresh(self, timeout_s: float) -> None: ...

    def await_read(self, written: Iterable[Written], timeout_s: float) -> None: ...

    def records(self, connector: str, offsets: Sequence[OffsetPair]) -> list[OffsetRecord]: ...


class OwnOffsets:
    """Reads the connector's topic and, for missing offsets, the worker's. Owns neither. Safe from any thread."""

    def __init__(self, own: TopicOffsetStore, of_worker: TopicOffsetStore) -> None:
        self._own = own
        self._of_worker = of_worker

    def refresh(self, timeout_s: float) -> None:
        """Refreshes both topics, each within the time. Raises UnreachableError."""
        self._own.refresh(timeout_s)
        self._of_worker.refresh(timeout_s)

    def await_read(self, written: Iterable[Written], timeout_s: float) -> None:
        """Waits for records in the connector's topic; see :meth:`OffsetTopic.await_read`."""
        self._own.await_read(written, timeout_s)

    def get(self, connector: str, partition: Mapping[str, Any] | None) -> dict[str, Any] | None:
        found = self._own.get(connector, partition)
        return self._of_worker.get(connector, partition) if found is None else found

    def entries(self, connector: str) -> list[OffsetEntry]:
        own = self._own.entries(connector)
        known = {partition_id(entry.partition) for entry in own}
        others = [entry for entry in self._of_worker.entries(connector) if partition_id(entry.partition) not in known]
        return [*own, *others]

    def put(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        """Stores offsets; durable in the connector's topic on return. Raises the errors of writing to it, or of deleting in
        the worker's topic."""
        self.delete_from_worker_topic(connector, offsets)
        self._own.put(connector, offsets)
        self.copy_to_worker_topic(connector, offsets)

    def records(self, connector: str, offsets: Sequence[OffsetPair]) -> list[OffsetRecord]:
        """Returns records for the connector's topic; see :meth:`OffsetTopic.records`. Call :meth:`delete_from_worker_topic`
        before they are written, and :meth:`copy_to_worker_topic` after they are committed."""
        return self._own.records(connector, offsets)

    def delete_from_worker_topic(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        """Deletes offsets in the worker's topic first: there, they would be found again once the connector's own topic no
        longer has them. Raises ConnectError."""
        deleted = [pair for pair in offsets if pair[1] is None]
        if deleted:
            self._of_worker.put(connector, deleted)

    def copy_to_worker_topic(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        """Copies other offsets to the worker's topic. Logs errors."""
        stored = [pair for pair in offsets if pair[1] is not None]
        if not stored:
            return
        try:
            self._of_worker.put(connector, stored)
        except ConnectError as e:
            log.warning("Offsets of %s are stored in its own topic, but not in the worker's: %s", connector, e.message)
