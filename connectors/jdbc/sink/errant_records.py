"""Records that could not be written: reported where the connector has a reporter, counted where failures are tolerated without
one, else the end of the task."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from connect.errors import ConnectError, DataError
from connect.record import SinkRecord
from connect.sink import ErrantRecordReporter
from connectors.jdbc.sink.row_changes import ErrantRecord

log = logging.getLogger(__name__)


class Refusals:
    """Those of one task."""

    def __init__(self, reporter: ErrantRecordReporter | None) -> None:
        self._reporter = reporter
        self.count = 0
        """Records refused since the task started."""

    def report(self, refused: Sequence[ErrantRecord]) -> None:
        """Tells of records that are done with: the rest of their batch is committed. Promise 7: the worker commits no offset
        before the dead letter queue has them."""
        if not refused:
            return
        self.count += len(refused)
        if self._reporter is not None:
            for one in refused:
                self._reporter.report(one.record, one.error)
            return
        log.warning(
            "%d records were left out, for errors.tolerance=all and neither a dead letter queue nor errors.log.enable is set; "
            "the latest: %s: %s",
            len(refused),
            place(refused[-1].record),
            refused[-1].error.message,
        )

    def fatal(self, refused: ErrantRecord) -> ConnectError:
        """Reports the record that ends the task; returns what to raise, unless the reporter raises itself."""
        self.count += 1
        if self._reporter is not None:
            self._reporter.report(refused.record, refused.error)
        return DataError(f"{place(refused.record)} cannot be written: {refused.error.message}")


def place(record: SinkRecord) -> str:
    return f"Record of topic {record.original_topic}, partition {record.original_partition}, offset {record.offset}"
