"""Holds records until they are committed, and reports those that turn out to be errant.

A record is errant only if nothing else can be blamed: it cannot be decoded, is no change event where one is needed, has no key
where one is needed, or has a value or field that no column can hold. Errors of the table, of Spark, or of the configuration fail
the task or are retried, whatever ``errors.tolerance`` says.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, wait

from connect.errors import DataError, RetriableError
from connect.record import RawBatch, SinkRecord, TopicPartition
from connect.sink import ErrantRecordReporter, RawRecord
from connectors.sink_support.errant_records import BadRecord, ErrantRecordHandler
from connectors.spark.delivery.partition_offsets import PartitionOffsets

_SETTLE_S = 5.0
"""How long one call waits for the dead letter queue; callers retry."""
_CHECK_S = 0.25


def settle(reports: Sequence[Future[None]], timeout_s: float | None = None) -> None:
    """Waits until every report is durable. Promise 7: only then may a table or the consumer group skip these records.

    Raises RetriableError on timeout, and ConnectError when a report could not be written. Callable from any thread.
    """
    timeout_s = _SETTLE_S if timeout_s is None else timeout_s
    pending = wait(reports, timeout_s).not_done if reports else ()
    if pending:
        raise RetriableError(
            f"the dead letter queue did not take {len(pending)} errant records within {timeout_s:g} s; nothing is committed "
            "before it has"
        )
    for report in reports:
        report.result()


def record_at(batch: RawBatch, offset: int) -> RawRecord:
    """Returns one record of a batch, which has it."""
    index = batch.offsets.index(offset)
    timestamp = batch.timestamps[index]
    headers = (batch.headers[index] if batch.headers is not None else None) or ()
    content = batch.keys[index], batch.values[index], timestamp if timestamp >= 0 else None, headers
    return RawRecord(batch.topic, batch.partition, offset, *content)


class SparkErrantRecords:
    """Errant records of one task, and the records that may still become errant. Used on the task's thread."""

    def __init__(self, reporter: ErrantRecordReporter | None, *, tolerant: bool) -> None:
        self._handler = ErrantRecordHandler(reporter)
        self._tolerant = tolerant
        self._raw: dict[TopicPartition, list[RawBatch]] = {}
        self._records: dict[TopicPartition, dict[int, SinkRecord]] = {}
        self._refused: dict[TopicPartition, dict[int, Future[None] | None]] = {}
        self.kept_bytes = 0
        """Size of the undecoded records that are kept."""

    @property
    def count(self) -> int:
        """Errant records since the task started."""
        return self._handler.count

    # -- records that are held until they are committed

    def keep_raw(self, batch: RawBatch) -> None:
        """Keeps the batch until :meth:`release`, if errant records are reported."""
        if self._handler.has_reporter:
            self._raw.setdefault(TopicPartition(batch.topic, batch.partition), []).append(batch)
            self.kept_bytes += _size_bytes(batch)

    def keep(self, records: Sequence[SinkRecord]) -> None:
        """The same for decoded records."""
        if self._handler.has_reporter:
            for record in records:
                origin = TopicPartition(record.original_topic, record.original_partition)
                self._records.setdefault(origin, {})[record.offset] = record

    @property
    def kept_records(self) -> int:
        """Number of decoded records that are kept. They take far more memory than their bytes in Kafka."""
        return sum(map(len, self._records.values()))

    def release(self, committed: Callable[[TopicPartition], int | None]) -> None:
        """Drops what every table has: the records of each partition below the offset that ``committed`` returns."""
        for partition in list(self._raw):
            end = committed(partition)
            batches = self._raw[partition]
            while batches and end is not None and batches[0].offsets[-1] < end:
                self.kept_bytes -= _size_bytes(batches.pop(0))
            if not batches:
                del self._raw[partition]
        for partition in list(self._records):
            end = committed(partition)
            records = self._records[partition]
            if end is not None:
                for offset in list(itertools.takewhile(end.__gt__, records)):
                    del records[offset]
            if not records:
                del self._records[partition]
        for partition, refused in self._refused.items():
            end = committed(partition) or 0
            self._refused[partition] = {offset: report for offset, report in refused.items() if offset >= end}

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Drops records of partitions that now have another owner."""
        for topic_partition in partitions:
            self.kept_bytes -= sum(map(_size_bytes, self._raw.pop(topic_partition, ())))
            self._records.pop(topic_partition, None)
            self._refused.pop(topic_partition, None)

    # -- errant records

    def refuse(self, bad_records: Sequence[BadRecord]) -> list[Future[None]]:
        """Reports or skips the records, each once, though several tables may refuse it; returns the reports. Raises the first
        error, or the reporter's own, unless failures are tolerated."""
        return self.refuse_read([(bad, None) for bad in bad_records])

    def refuse_read(self, records: Sequence[tuple[BadRecord, RawRecord | None]]) -> list[Future[None]]:
        """Like :meth:`refuse`, for records that another process has read; None are those that are kept."""
        reports = []
        for (topic_partition, offset, error), record in records:
            refused = self._refused.setdefault(topic_partition, {})
            if offset not in refused:
                refused[offset] = self._refuse(topic_partition, offset, error, record)
            report = refused[offset]
            if report is not None:
                reports.append(report)
        self._handler.log_skipped()
        return reports

    def _refuse(
        self, topic_partition: TopicPartition, offset: int, error: DataError, record: RawRecord | None
    ) -> Future[None] | None:
        if self._handler.has_reporter:
            return self._handler.report(record or self._find_record(topic_partition, offset), error)
        if not self._tolerant:
            raise error
        self._handler.skip(str(error))
        return None

    def _find_record(self, topic_partition: TopicPartition, offset: int) -> SinkRecord | RawRecord:
        record = self._records.get(topic_partition, {}).get(offset)
        if record is not None:
            return record
        batches = self._raw[topic_partition]
        batch = batches[bisect_right(batches, offset, key=lambda b: b.offsets[0]) - 1]
        return record_at(batch, offset)


class UnroutedReports:
    """Reports of bad records that no table's commit covers, because their topic has no table yet: holds their offsets until the
    reports are durable (promise 7). Used on the task's thread."""

    def __init__(self, offsets: PartitionOffsets) -> None:
        self._offsets = offsets
        self._pending: list[tuple[object, list[Future[None]]]] = []

    def add(self, bad_records: Sequence[BadRecord], reports: Sequence[Future[None]]) -> None:
        holder = object()
        for partition, offset, _ in bad_records:
            self._offsets.hold(holder, {partition: offset})
        self._pending.append((holder, list(reports)))

    def next_at(self, now: float) -> float | None:
        """Returns when to look at the reports again; None if there are none."""
        return now + _CHECK_S if self._pending else None

    def release_durable(self) -> None:
        """Releases the offsets whose reports are durable. Raises ConnectError when a report could not be written."""
        for pending in list(self._pending):
            holder, reports = pending
            if all(report.done() for report in reports):
                settle(reports)
                self._offsets.release(holder)
                self._pending.remove(pending)

    def settle(self) -> None:
        """Waits for the reports. Raises RetriableError on timeout, and ConnectError when a report could not be written."""
        settle([report for _, reports in self._pending for report in reports])
        self.release_durable()


def _size_bytes(batch: RawBatch) -> int:
    return sum(len(value) for value in batch.values if value is not None)
