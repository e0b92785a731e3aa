"""Source offsets in a topic, in Apache's format (``KafkaOffsetBackingStore``).

Offsets are looked up by the contents of their partitions, not by their key bytes: a Java worker may have written a partition's
members in another order. Writes use the key bytes that exist already, so that Java readers and compaction see one key; deletions
use all of them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from connect.errors import DataError, UnreachableError
from worker.kafka.log_writer import Written
from worker.kafka.partitioner import partition_of
from worker.kafka.topic_log import LogRecord, TopicLog, TopicLogSettings
from worker.model import OffsetEntry
from worker.storage.offset_codec import PartitionId, decode_key, decode_value, encode_key, encode_value, partition_id
from worker.storage.offset_store import OffsetPair, OffsetRecord

log = logging.getLogger(__name__)

WRITE_TIMEOUT_S = 30.0


class _Stored(NamedTuple):
    value: bytes
    order: tuple[int, int]
    """Its timestamp, then the order of reading: the greatest value is the newest."""


class StoredOffsets:
    """The contents of an offset topic, in memory. Not thread-safe."""

    def __init__(self) -> None:
        self._by_connector: dict[str, dict[PartitionId, dict[bytes, _Stored]]] = {}
        self._taken = 0

    def take(self, key: bytes | None, value: bytes | None, timestamp: int) -> bool:
        """Adds a record; returns False if it is not an offset."""
        parsed = None if key is None else decode_key(key)
        if parsed is None or key is None:
            return False
        try:
            offset = decode_value(value)
        except DataError:
            return False
        self._taken += 1
        partitions = self._by_connector.setdefault(parsed.connector, {})
        by_key = partitions.setdefault(partition_id(parsed.partition), {})
        if value is None or offset is None:
            by_key.pop(key, None)
        else:
            by_key[key] = _Stored(value, (timestamp, self._taken))
        if not by_key:
            del partitions[partition_id(parsed.partition)]
        if not partitions:
            del self._by_connector[parsed.connector]
        return True

    def get(self, connector: str, partition: PartitionId) -> bytes | None:
        """Returns the newest value, or None."""
        by_key = self._by_connector.get(connector, {}).get(partition)
        return max(by_key.values(), key=lambda stored: stored.order).value if by_key else None

    def keys(self, connector: str, partition: PartitionId) -> list[bytes]:
        """Returns the keys that have values, the newest first."""
        by_key = self._by_connector.get(connector, {}).get(partition, {})
        return sorted(by_key, key=lambda key: by_key[key].order, reverse=True)

    def entries(self, connector: str) -> list[tuple[bytes, bytes]]:
        """Returns key and value of each partition."""
        found = self._by_connector.get(connector, {}).values()
        return [(key, by_key[key].value) for by_key in found for key in [max(by_key, key=lambda one: by_key[one].order)]]


class OffsetTopic:
    """An :class:`worker.storage.offset_store.OffsetStore` in a topic. Owns its log. Safe from any thread.

    Reads return what was last read back; call :meth:`refresh` first to get the newest offsets.
    """

    def __init__(self, settings: TopicLogSettings) -> None:
        """``settings`` come from :func:`worker.storage.topic_logs.offset_log` or ``own_offset_log``."""
        self._lock = threading.Lock()
        self._stored = StoredOffsets()
        self._log = TopicLog(settings, self._on_record)

    @property
    def topic(self) -> str:
        return self._log.topic

    def start(self, timeout_s: float | None = None) -> None:
        """Creates or checks the topic and reads it; see :meth:`TopicLog.start`."""
        self._log.start(timeout_s)

    def ask_to_close(self) -> None:
        """Makes a later close fast."""
        self._log.ask_to_close()

    def close(self) -> None:
        self._log.close()

    def refresh(self, timeout_s: float) -> None:
        """Waits until everything written before the call was read. Raises UnreachableError on timeout.

        With exactly-once it also waits for open transactions, as Apache's workers do: another task's transaction hides offsets
        that this task's predecessor committed after it, and their records would be read from the source again (promise 5).
        """
        self._log.read_to_end(timeout_s, with_open=True)

    def await_read(self, written: Iterable[Written], timeout_s: float) -> None:
        """Waits until these records were read. The records of a committed transaction may not be visible to readers yet, so
        :meth:`refresh` might return too early. Raises UnreachableError on timeout."""
        self._log.await_read(written, timeout_s)

    def get(self, connector: str, partition: Mapping[str, Any] | None) -> dict[str, Any] | None:
        with self._lock:
            value = self._stored.get(connector, partition_id(partition))
        return decode_value(value)

    def entries(self, connector: str) -> list[OffsetEntry]:
        with self._lock:
            found = self._stored.entries(connector)
        parsed = [(decode_key(key), decode_value(value)) for key, value in found]
        return [OffsetEntry(key.partition, offset) for key, offset in parsed if key is not None]

    def put(self, connector: str, offsets: Sequence[OffsetPair], timeout_s: float = WRITE_TIMEOUT_S) -> None:
        """Writes offsets and returns when all replicas have them and they were read back.

        Raises UnreachableError on timeout (some may have been written, or may be written within the next seconds), DataError for
        offsets that cannot be stored. Uses the topic's non-transactional producer: a task with exactly-once writes
        :meth:`records` in its own transaction.
        """
        if not offsets:
            return
        deadline = time.monotonic() + timeout_s
        records = [(record.key, record.value) for record in self.records(connector, offsets)]
        written = self._log.send_all(records, timeout_s)
        try:
            self._log.await_read(written, max(1.0, deadline - time.monotonic()))
        except UnreachableError as e:
            # They are stored; this worker will read them later.
            log.warning("%s", e.message)

    def records(self, connector: str, offsets: Sequence[OffsetPair]) -> list[OffsetRecord]:
        """Returns the records that store these offsets, with the partitions in which Java looks for them. Raises DataError."""
        return list(self._records(connector, offsets))

    def _records(self, connector: str, offsets: Sequence[OffsetPair]) -> Iterator[OffsetRecord]:
        for partition, offset in offsets:
            own_key, value = encode_key(connector, partition), encode_value(offset)
            with self._lock:
                known = self._stored.keys(connector, partition_id(partition))
            keys = known or [own_key]
            for key in keys if value is None else keys[:1]:
                yield OffsetRecord(self.topic, partition_of(key, self._log.partitions), key, value)

    def _on_record(self, record: LogRecord) -> None:
        with self._lock:
            taken = self._stored.take(record.key, record.value, record.timestamp)
        if not taken:
            key = (record.key or b"")[:100].decode("utf-8", "backslashreplace")
            log.warning(
                "Record %d of partition %d of offset topic %s (key %s) is no source offset and left out",
                record.offset, record.partition, self.topic, key,
            )  # fmt: skip
