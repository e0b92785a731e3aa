"""Reports of bad records that no table's commit covers, because their topic has no table yet."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from connectors.sink_support.errant_records import BadRecord
from connectors.spark.delivery.errant_records import settle
from connectors.spark.delivery.partition_offsets import PartitionOffsets

_CHECK_S = 0.25


class UnroutedReports:
    """Holds the offsets of the bad records until their reports are durable (promise 7). Used on the task's thread."""

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
