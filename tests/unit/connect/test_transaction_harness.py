"""What tests of connectors see of the transaction boundaries that a task sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connect import SourceRecord, SourceTask
from connect.testing import SourceHarness


class Bounded(SourceTask):
    """Ends a transaction in its first batch and throws the second batch away."""

    def start(self, config: Mapping[str, str]) -> None:
        self.first = True

    def poll(self) -> Sequence[SourceRecord]:
        batch = [SourceRecord({"p": 1}, {"o": i}, "t", None, None, None, None, i) for i in range(2)]
        transactions = self.context.transaction_context
        if transactions is not None:
            if self.first:
                transactions.commit_transaction(batch[0])
            else:
                transactions.abort_transaction()
        self.first = False
        return batch

    def stop(self) -> None: ...


def test_transaction_boundaries_are_recorded() -> None:
    with SourceHarness(Bounded(), {"transaction.boundary": "connector"}) as harness:
        first = harness.poll()
        harness.poll()
        assert harness.transactions is not None
        assert harness.transactions.commits == [first[0]]
        assert harness.transactions.aborts == [None]


def test_task_without_own_boundaries_has_no_transaction_context() -> None:
    with SourceHarness(Bounded(), {}) as harness:
        assert len(harness.poll()) == 2
        assert harness.transactions is None
