"""Source offsets of a connector with an offsets topic of its own (``offsets.storage.topic``, KIP-618).

Its own topic comes first; the worker's has a copy, so that a connector which is given back to it goes on where it was, and one
that has just got a topic of its own does too (Apache's ``ConnectorOffsetBackingStore``).
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


class TopicOffsets(OffsetStore, Protocol):
    """Offsets in a topic (:class:`worker.storage.kafka_offset_store.OffsetTopic`)."""

    def refresh(self, timeout_s: float) -> None: ...

    def await_read(self, written: Iterable[Written], timeout_s: float) -> None: ...

    def records(self, connector: str, offsets: Sequence[OffsetPair]) -> list[OffsetRecord]: ...


class OwnOffsets:
    """Reads the connector's topic and, for what it does not have, the worker's. Owns neither. Safe from any thread."""

    def __init__(self, own: TopicOffsets, of_worker: TopicOffsets) -> None:
        self._own = own
        self._of_worker = of_worker

    def refresh(self, timeout_s: float) -> None:
        """Of both topics, within the time each. Raises UnreachableError."""
        self._own.refresh(timeout_s)
        self._of_worker.refresh(timeout_s)

    def await_read(self, written: Iterable[Written], timeout_s: float) -> None:
        """For records in the connector's topic; see :meth:`OffsetTopic.await_read`."""
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
        """Durable in the connector's topic on return; raises what writing to it raises, or forgetting in the worker's."""
        self.forget_in_worker_topic(connector, offsets)
        self._own.put(connector, offsets)
        self.copy_to_worker_topic(connector, offsets)

    def records(self, connector: str, offsets: Sequence[OffsetPair]) -> list[OffsetRecord]:
        """For the connector's topic; see :meth:`OffsetTopic.records`. Call :meth:`forget_in_worker_topic` before, and
        :meth:`copy_to_worker_topic` after they are committed."""
        return self._own.records(connector, offsets)

    def forget_in_worker_topic(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        """Forgets what is to be forgotten in the worker's topic first: if it stayed there, it would be found again when the
        connector's own topic no longer has it. Raises ConnectError."""
        forgotten = [pair for pair in offsets if pair[1] is None]
        if forgotten:
            self._of_worker.put(connector, forgotten)

    def copy_to_worker_topic(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        """Writes a copy of the rest to the worker's topic, as well as that goes."""
        kept = [pair for pair in offsets if pair[1] is not None]
        if not kept:
            return
        try:
            self._of_worker.put(connector, kept)
        except ConnectError as e:
            log.warning("Offsets of %s are stored in its own topic, but not in the worker's: %s", connector, e.message)
