"""Runs one task in the current thread, with everything that a worker provides, but without Kafka."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from connect.converters.api import Converter
from connect.converters.json.converter import JsonConverter
from connect.data.schema import Schema
from connect.errors import ConnectError, IllegalStateError, RetriableError, UnsupportedError
from connect.record import RawBatch, SinkRecord, SourceRecord, TopicPartition
from connect.sink import ErrantRecordReporter, FailedRead, Offsets, RangeReader, RawRecord, SinkTask, TopicIdentity
from connect.source import OwnedTopic, OwnedTopicSettings, SourceTask, TopicReader, TransactionContext

_Key = tuple[tuple[str, Any], ...]


class MemoryOffsets:
    """Stored source offsets: an OffsetReader that tests can modify."""

    def __init__(self) -> None:
        self._stored: dict[_Key, dict[str, Any]] = {}

    @staticmethod
    def _key(partition: Mapping[str, Any]) -> _Key:
        return tuple(sorted(partition.items()))

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        found = self._stored.get(self._key(partition))
        return None if found is None else dict(found)

    def offsets(self, partitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
        return [self.offset(partition) for partition in partitions]

    def store(self, partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> None:
        """Sets an offset; None deletes it."""
        if offset is None:
            self._stored.pop(self._key(partition), None)
        else:
            self._stored[self._key(partition)] = dict(offset)


class MemoryTransactions:
    """A TransactionContext that records the requested boundaries. None stands for the next batch."""

    def __init__(self) -> None:
        self.commits: list[SourceRecord | None] = []
        self.aborts: list[SourceRecord | None] = []

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        self.commits.append(record)

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        self.aborts.append(record)


class _SourceContext:
    def __init__(self, config: Mapping[str, str], offsets: MemoryOffsets, transactions: TransactionContext | None) -> None:
        self._config = config
        self.offset_reader = offsets
        self.transaction_context = transactions

    def configs(self) -> Mapping[str, str]:
        return self._config

    def open_topic(self, topic: str, settings: Mapping[str, str], position: int | None) -> TopicReader:
        raise UnsupportedError("the harness has no topics")

    def open_owned_topic(self, topic: str, settings: OwnedTopicSettings) -> OwnedTopic:
        raise UnsupportedError("the harness has no topics")


class SourceHarness:
    """Runs a source task between ``start`` and ``close``; a context manager.

    To simulate a restart, pass the ``offsets`` of one harness to the next. ``transactions`` records the task's transaction
    boundaries if the configuration has ``transaction.boundary=connector``, and is None otherwise.
    """

    def __init__(self, task: SourceTask, config: Mapping[str, str], offsets: MemoryOffsets | None = None) -> None:
        self.task = task
        own_boundaries = config.get("transaction.boundary", "").lower() == "connector"
        self.transactions = MemoryTransactions() if own_boundaries else None
        self.offsets = offsets or MemoryOffsets()
        self._config = dict(config)
        self._uncommitted: list[SourceRecord] = []

    def start(self) -> Self:
        self.task.initialize(_SourceContext(self._config, self.offsets, self.transactions))
        self.task.start(self._config)
        return self

    def poll(self) -> list[SourceRecord]:
        """Polls once; a RetriableError counts as no records."""
        try:
            records = list(self.task.poll() or ())
        except RetriableError:
            return []
        self._uncommitted += records
        return records

    def poll_records(self, count: int, timeout_s: float = 10.0) -> list[SourceRecord]:
        """Polls until there are at least this many records. Raises ConnectError after the timeout."""
        deadline = time.monotonic() + timeout_s
        found: list[SourceRecord] = []
        while len(found) < count:
            if time.monotonic() > deadline:
                raise ConnectError(f"{len(found)} records after {timeout_s:g} s, expected {count}")
            found += self.poll()
        return found

    def commit(self) -> None:
        """Treats the polled records as acknowledged: stores their offsets and notifies the task."""
        committed: dict[_Key, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        for record in self._uncommitted:
            if self.task.wants_commit_record:
                self.task.commit_record(record, None)
            if record.source_partition is not None and record.source_offset is not None:
                self.offsets.store(record.source_partition, record.source_offset)
                key = MemoryOffsets._key(record.source_partition)
                committed[key] = record.source_partition, record.source_offset
        self._uncommitted = []
        for partition, offset in self.task.update_offsets(list(committed.values())):
            self.offsets.store(partition, offset)
            committed[MemoryOffsets._key(partition)] = partition, offset
        if committed:
            self.task.commit(list(committed.values()))

    def stop(self) -> None:
        self.task.stop()
        self.task.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


class MemoryReporter:
    """An ErrantRecordReporter that stores the reported records."""

    def __init__(self) -> None:
        self.reported: list[tuple[SinkRecord, Exception]] = []
        self.reported_raw: list[tuple[RawRecord, Exception]] = []

    def report(self, record: SinkRecord, error: Exception) -> Future[None]:
        self.reported.append((record, error))
        return _done()

    def report_raw(self, record: RawRecord, error: Exception) -> Future[None]:
        self.reported_raw.append((record, error))
        return _done()


def _done() -> Future[None]:
    done: Future[None] = Future()
    done.set_result(None)
    return done


class SinkContext:
    """A SinkTaskContext that stores the task's requests for tests."""

    def __init__(
        self,
        config: Mapping[str, str],
        key_converter: Converter,
        value_converter: Converter,
        *,
        raw_allowed: bool = False,
        reporter: ErrantRecordReporter | None = None,
    ) -> None:
        self._config = config
        self.key_converter = key_converter
        self.value_converter = value_converter
        self.raw_allowed = raw_allowed
        self.errant_record_reporter = reporter
        self.assigned: set[TopicPartition] = set()
        self.paused: set[TopicPartition] = set()
        self.requested_offsets: dict[TopicPartition, int] = {}
        self.requested_timeout_ms: int | None = None
        self.commit_requested = False
        self.beginnings: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.identities: dict[str, TopicIdentity] = {}
        """The identities of topics; others have the topic ID ``-``."""
        self.reader: RangeReader | None = None
        self.failed_reads: list[FailedRead] = []

    def configs(self) -> Mapping[str, str]:
        return self._config

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.requested_offsets |= offsets

    def timeout(self, timeout_ms: int) -> None:
        self.requested_timeout_ms = timeout_ms

    def assignment(self) -> set[TopicPartition]:
        return set(self.assigned)

    def pause(self, *partitions: TopicPartition) -> None:
        self.paused |= set(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self.paused -= set(partitions)

    def request_commit(self) -> None:
        self.commit_requested = True

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.ends[tp] for tp in partitions if tp in self.ends}

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.beginnings[tp] for tp in partitions if tp in self.beginnings}

    def positions(self) -> dict[TopicPartition, int]:
        return {**self.beginnings, **self.requested_offsets}

    def range_reader(self) -> RangeReader:
        if self.reader is None:
            raise IllegalStateError("the test has no reader of offset ranges")
        return self.reader

    def count_read(self, partition: TopicPartition, records: int, size_bytes: int) -> None: ...

    def report_failed_read(self, failure: FailedRead) -> Future[None]:
        self.failed_reads.append(failure)
        return _done()

    def topic_identities(self, topics: Collection[str]) -> dict[str, TopicIdentity]:
        partitions = Counter(tp.topic for tp in self.assignment())
        return {topic: self.identities.get(topic, TopicIdentity("memory", "-", partitions[topic] or 1)) for topic in topics}


class SinkHarness:
    """Runs a sink task between ``start`` and ``close``; a context manager. ``put_values`` numbers the offsets."""

    def __init__(
        self,
        task: SinkTask,
        config: Mapping[str, str],
        *,
        key_converter: Converter | None = None,
        value_converter: Converter | None = None,
        raw_allowed: bool = False,
    ) -> None:
        self.task = task
        self._config = dict(config)
        self.reporter = MemoryReporter()
        self.context = SinkContext(
            self._config, key_converter or JsonConverter(), value_converter or JsonConverter(),
            raw_allowed=raw_allowed, reporter=self.reporter,
        )  # fmt: skip
        self.delivered: Offsets = {}
        self.committed: Offsets = {}

    def start(self) -> Self:
        self.task.initialize(self.context)
        self.task.start(self._config)
        return self

    def open(self, *partitions: TopicPartition) -> None:
        self.context.assigned |= set(partitions)
        self.task.open(partitions)

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Puts records; opens new partitions first."""
        self._open_new({TopicPartition(record.topic, record.partition) for record in records})
        self.task.put(records)
        for record in records:
            self.delivered[TopicPartition(record.topic, record.partition)] = record.offset + 1

    def put_values(
        self, topic: str, values: Sequence[Any], *, schema: Schema | None = None, partition: int = 0
    ) -> list[SinkRecord]:
        """Creates records of these values at the next offsets, and puts them."""
        first = self.delivered.get(TopicPartition(topic, partition), 0)
        records = [SinkRecord(topic, partition, None, None, schema, value, first + i) for i, value in enumerate(values)]
        self.put(records)
        return records

    def put_raw(self, batches: Sequence[RawBatch]) -> None:
        """Puts undecoded batches; only for tasks whose ``wants_raw`` returns True."""
        self._open_new({TopicPartition(batch.topic, batch.partition) for batch in batches})
        self.task.put_raw(batches)
        for batch in batches:
            if batch.offsets:
                self.delivered[TopicPartition(batch.topic, batch.partition)] = batch.offsets[-1] + 1

    def _open_new(self, partitions: set[TopicPartition]) -> None:
        new = partitions - self.context.assigned
        if new:
            self.open(*sorted(new))

    def commit(self) -> Offsets:
        """Calls ``pre_commit`` with the offsets of all records put, and commits the offsets that it returns."""
        offsets = self.task.pre_commit(dict(self.delivered))
        self.committed |= offsets
        return offsets

    def stop(self) -> None:
        if self.context.assigned:
            self.task.close_partitions(sorted(self.context.assigned))
            self.context.assigned = set()
        self.task.stop()
        self.task.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
