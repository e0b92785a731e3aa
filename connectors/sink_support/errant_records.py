"""Reports, counts, and logs errant records: records that a sink cannot write."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from typing import NamedTuple

from connect.errors import ConnectError, DataError
from connect.record import SinkRecord, TopicPartition
from connect.sink import ErrantRecordReporter, RawRecord

log = logging.getLogger(__name__)


class BadRecord(NamedTuple):
    """Location of a record that cannot be written, and the reason."""

    topic_partition: TopicPartition
    offset: int
    reason: DataError

    @classmethod
    def of(cls, topic_partition: TopicPartition, offset: int, error: DataError) -> BadRecord:
        """Adds the location to the error's message, unless it is there already."""
        location = describe_location(topic_partition, offset)
        if location in error.message:
            return cls(topic_partition, offset, error)
        reason = DataError(f"{location}: {error.message}")
        reason.__cause__ = error
        return cls(topic_partition, offset, reason)


def describe_location(topic_partition: TopicPartition, offset: int) -> str:
    """Text that locates a record in a message."""
    return f"topic {topic_partition.topic}, partition {topic_partition.partition}, offset {offset}"


class ErrantRecordHandler:
    """Reports the errant records of one task, or counts and logs them if there is no reporter."""

    def __init__(self, reporter: ErrantRecordReporter | None) -> None:
        self._reporter = reporter
        self._skipped = 0
        self._latest = ""
        self.count = 0
        """Errant records since the task started."""

    @property
    def has_reporter(self) -> bool:
        return self._reporter is not None

    def report(self, record: SinkRecord | RawRecord, error: ConnectError) -> Future[None]:
        """Reports the record. The future ends when the report is durable. Call only if there is a reporter."""
        assert self._reporter is not None
        self.count += 1
        return self._reporter.report_raw(record, error) if isinstance(record, RawRecord) else self._reporter.report(record, error)

    def skip(self, description: str) -> None:
        """Counts a record that nobody takes. ``description`` names record and error in the log."""
        self.count += 1
        self._skipped += 1
        self._latest = description

    def log_skipped(self) -> None:
        """Logs how many records were skipped since the last call."""
        if self._skipped:
            log.warning(
                "Skipped %d errant records, because errors.tolerance=all and neither a dead letter queue nor errors.log.enable "
                "is set; the latest: %s",
                self._skipped,
                self._latest,
            )
            self._skipped = 0
