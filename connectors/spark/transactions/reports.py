"""Log messages about transactions that lack events, or their end."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from connectors.spark.transactions.intake import TransactionIntake
from connectors.spark.transactions.order import IncompleteTransaction

log = logging.getLogger(__name__)

_INTERVAL_S = 60.0


class TransactionReports:
    """At most one message per minute of each kind. Used on the task's thread."""

    def __init__(self, timeout_ms: int) -> None:
        self.incomplete = 0
        """Transactions that lacked events since the task started."""
        self._patience_s = max(_INTERVAL_S, timeout_ms / 1000)
        self._incomplete_at = self._stuck_at = float("-inf")

    def report_incomplete(self, found: Sequence[IncompleteTransaction], now: float) -> None:
        """These transactions will not get all of their events."""
        self.incomplete += len(found)
        if found and now >= self._incomplete_at + _INTERVAL_S:
            self._incomplete_at, first = now, found[0]
            log.warning(
                "Transaction %s has %d events of %s in the source, of which %d arrived; the others were filtered, are no longer "
                "in the topics, or are in the tables already. The round continues without them; the progress counts such "
                "transactions as incomplete",
                first.id,
                first.expected,
                first.collection,
                first.arrived,
            )

    def report_stuck(self, intake: TransactionIntake, now: float) -> None:
        """No round is possible. Reports it when that has lasted."""
        if intake.oldest_at is None or now < max(intake.oldest_at + self._patience_s, self._stuck_at + _INTERVAL_S):
            return
        self._stuck_at = now
        lacking, endless = intake.order.lacking(), intake.order.without_end()
        if lacking:
            log.warning("Transaction %s waits for its events of %s", *lacking[0])
        elif endless:
            log.warning("Transaction %s has events, but no END event in topic %s", endless[0], intake.end_partition.topic)
