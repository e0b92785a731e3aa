"""Records that the sink refuses: reported where the connector has a reporter, left out where that is tolerated, else the end of
the task.

Refused is what cannot be blamed on anything but the record: it cannot be decoded, is no change event where one is needed, has no
key where one is needed, has a value or a field that no column can hold. What is wrong with the table, with Spark or with the
configuration is never a record's fault, and fails or is tried again whatever ``errors.tolerance`` says.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Collection, Sequence
from concurrent.futures import Future, wait

from connect.errors import DataError, RetriableError
from connect.record import RawBatch, SinkRecord, TopicPartition
from connect.sink import ErrantRecordReporter, RawRecord

log = logging.getLogger(__name__)

_SETTLE_S = 5.0
"""How long one call waits for the dead letter queue; whoever called is called again."""


class SparkErrantRecords:
    """Those of one task, with the records that may still become some. Used on the task's thread."""

    def __init__(self, reporter: ErrantRecordReporter | None, *, tolerant: bool) -> None:
        self._reporter = reporter
        self._tolerant = tolerant
        self._raw: dict[TopicPartition, list[RawBatch]] = {}
        self._records: dict[TopicPartition, dict[int, SinkRecord]] = {}
        self._reports: list[Future[None]] = []
        self._untold = 0
        self._latest: DataError | None = None
        self.count = 0
        """Records refused since the task started."""

    # -- records that are held, as they came

    def keep_raw(self, batch: RawBatch) -> bool:
        """Keeps the batch until :meth:`release`, if its records are to be reported; True when it was kept."""
        if self._reporter is None:
            return False
        self._raw.setdefault(TopicPartition(batch.topic, batch.partition), []).append(batch)
        return True

    def keep(self, records: Sequence[SinkRecord]) -> None:
        """The same for decoded records."""
        if self._reporter is not None:
            for record in records:
                origin = TopicPartition(record.original_topic, record.original_partition)
                self._records.setdefault(origin, {})[record.offset] = record

    @property
    def kept_records(self) -> int:
        """Decoded records that are kept: they take far more memory than their bytes in Kafka."""
        return sum(map(len, self._records.values()))

    def release(self) -> None:
        """Everything that was held is in the tables."""
        self._raw.clear()
        self._records.clear()

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions have another owner."""
        for place in partitions:
            self._raw.pop(place, None)
            self._records.pop(place, None)

    # -- records that are refused

    def refuse(self, place: TopicPartition, offset: int, error: DataError) -> None:
        """Reports the record, or leaves it out. Raises unless failures are tolerated: the error, or the reporter's own."""
        if self._reporter is None:
            if not self._tolerant:
                raise error
            self._untold += 1
            self._latest = error
        else:
            self._reports.append(self._report(self._reporter, place, offset, error))
        self.count += 1

    def _report(self, reporter: ErrantRecordReporter, place: TopicPartition, offset: int, error: DataError) -> Future[None]:
        record = self._records.get(place, {}).get(offset)
        if record is not None:
            return reporter.report(record, error)
        batches = self._raw[place]
        batch = batches[bisect_right(batches, offset, key=lambda b: b.offsets[0]) - 1]
        index = batch.offsets.index(offset)
        timestamp = batch.timestamps[index]
        return reporter.report_raw(
            RawRecord(
                batch.topic,
                batch.partition,
                offset,
                batch.keys[index],
                batch.values[index],
                timestamp if timestamp >= 0 else None,
                (batch.headers[index] if batch.headers is not None else None) or (),
            ),
            error,
        )

    def settle(self) -> None:
        """Waits until every report is durable. Promise 7: only then may a table, or the group, say that these records are done.

        Raises RetriableError when they are not in time, and ConnectError when one could not be written.
        """
        if self._untold:
            log.warning(
                "%d records were left out, for errors.tolerance=all and neither a dead letter queue nor errors.log.enable "
                "is set; the latest: %s",
                self._untold,
                self._latest,
            )
            self._untold = 0
        still_open = wait(self._reports, _SETTLE_S).not_done if self._reports else ()
        if still_open:
            raise RetriableError(
                f"the dead letter queue has not taken {len(still_open)} of the records that failed within {_SETTLE_S:g} s; "
                "nothing is committed before it has"
            )
        reports, self._reports = self._reports, []
        for report in reports:
            report.result()
