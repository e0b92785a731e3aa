"""Exactly-once (KIP-618): records and the offsets they came from are written in one transaction.

What is promised: a reader of committed records sees each record once, whatever dies when (promise 5). For either the records and
their offsets become visible together, or neither does and the records are read from their source again. A task that was replaced
is fenced by the one that initialises its transactional id next (promise 4). A transaction that is lost to brokers that were away
ends the task's delivery with TransactionLostError: the task begins again from what is committed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from connect import crash_points
from connect.errors import ConnectError, UnreachableError
from connect.record import SourceRecord
from connect.source import TransactionContext
from worker.error_text import describe
from worker.executor import WorkerServices
from worker.kafka.record_producer import ProduceCancelled, ProducerRun, RecordMetadata
from worker.kafka.transactions import TransactionLostError
from worker.model import Stopped
from worker.source.at_least_once import Outcome, confirm, tell_source
from worker.source.runtime import Exactly, FlushTiming, SourceParts
from worker.source.sender import RecordSender, SourceHost
from worker.source.transaction_boundary import Boundary, End, Part, RequestedBoundaries
from worker.storage.offset_store import OffsetPair, OffsetRecord

log = logging.getLogger(__name__)

_ASK_AGAIN_S = 1.0
_OWN_TOPIC = "Source tasks may not produce to their own offsets topics when exactly-once support is enabled"


class ExactlyOnce:
    """Delivers in transactions, which end where ``transaction.boundary`` says."""

    def __init__(
        self,
        host: SourceHost,
        parts: SourceParts,
        exactly: Exactly,
        services: WorkerServices,
        timing: FlushTiming,
        run: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``run`` is what the worker knows this start of the task by; ``clock`` tells seconds."""
        self._host = host
        self._parts = parts
        self._services = services
        self._timing = timing
        self._run = run
        self._clock = clock
        self._transactions = exactly.transactions
        self._boundary = exactly.boundary
        self._requested = RequestedBoundaries()
        self.context: TransactionContext | None = None
        if exactly.boundary.kind is Boundary.CONNECTOR:
            self.context = self._requested
        # A transaction is opened by the first record: a batch of which nothing is left needs none.
        self._sender = RecordSender(host, parts, self._written, self._transactions.begin)
        self._last_commit = 0.0
        self.fruitful = False
        self._partial = False  # whether the transaction holds records of which no offset is known
        # For tasks that want each record confirmed: those of the transaction, and where they came to lie.
        self._records: list[SourceRecord] = []
        self._places: dict[int, RecordMetadata | None] = {}

    def prepare(self) -> bool:
        # Promise 4: whoever ran this task before is fenced then. If it is this one that is out of date, it ends here.
        return self._transactions.init() and self._confirmed(anew=False)

    @property
    def disturbed(self) -> bool:
        return self._transactions.disturbed

    def may_begin_again(self) -> bool:
        # Promise 4: before there is another producer, which would fence that of whoever has the task.
        return self._confirmed(anew=True)

    def _confirmed(self, *, anew: bool) -> bool:
        told = False
        while not self._host.control.stopping:
            try:
                self._services.confirm_task(self._run, self._host.id, anew=anew)
            except UnreachableError as e:
                if not told:
                    log.warning("Task %s waits until it is known whether it is to run here: %s", self._host.id, e.message)
                    told = True
                self._host.control.wait_for_stop(_ASK_AGAIN_S)
            else:
                return True
        return False

    def begin(self) -> None:
        self._last_commit = self._clock()

    def deliver(self, batch: Sequence[SourceRecord] | None) -> None:
        try:
            for records, end in self._stretches(batch):
                self._send(records)
                self._end(end)
            self._end(self._after_batch())
            self._parts.producer.serve()
        except ConnectError as e:
            raise self._transactions.explained(e) from e

    def settle(self) -> None:
        # So that no transaction expires meanwhile. One whose end only the task knows stays open, as in Apache's worker.
        try:
            self._end(self._at_last())
            self._parts.producer.serve()
        except ConnectError as e:
            raise self._transactions.explained(e) from e

    def finish(self, outcome: Outcome) -> None:
        if self._host.cancelled:
            return
        if outcome is Outcome.STOPPED and not self._partial:
            try:
                self._end(self._at_last())
            except (ConnectError, ProduceCancelled, Stopped) as e:
                log.error("The last transaction of task %s is not committed: %s", self._host.id, describe(e))
        if self._transactions.open:
            self._transactions.give_up()

    # --- where transactions end

    def _stretches(self, batch: Sequence[SourceRecord] | None) -> Sequence[Part]:
        if not batch:
            return ()
        return [Part(batch, End.NONE)] if self.context is None else list(self._requested.split(batch))

    def _after_batch(self) -> End:
        match self._boundary.kind:
            case Boundary.CONNECTOR:
                return self._requested.after_batch()
            case Boundary.INTERVAL:
                return End.COMMIT if self._clock() >= self._last_commit + self._boundary.interval_s else End.NONE
        # Offsets of records that were all dropped do not need a transaction each time.
        due = self._transactions.open or self._clock() >= self._last_commit + self._timing.interval_s
        return End.COMMIT if due else End.NONE

    def _at_last(self) -> End:
        return self._requested.after_batch() if self._boundary.kind is Boundary.CONNECTOR else End.COMMIT

    def _end(self, end: End) -> None:
        if end is End.NONE:
            return
        if end is End.ABORT:
            self._transactions.abort()
            self._places.clear()  # none of them was written
        # After an abort too: the offsets are kept, so that the task does not see the same records again.
        self._commit()

    # --- a transaction

    def _send(self, records: Sequence[SourceRecord]) -> None:
        self._partial = True
        if self._parts.task.wants_commit_record:
            self._records += records
        self._sender.send(records)
        self._partial = False

    def _commit(self) -> None:
        self._last_commit = self._clock()
        pending, transactions = self._sender.pending, self._transactions
        if not pending and not transactions.open:
            return
        # Promise 7: a record that was skipped is in the dead letter queue before its offset is committed.
        self._parts.errors.settle_now()
        offsets = pending.take()
        transactions.begin()
        if offsets:
            try:
                self._write_offsets(offsets)
            except UnreachableError as e:
                raise TransactionLostError(e.message) from e
        if self._parts.task.wants_commit_record:
            transactions.wait_until_sent()  # so that it is known where each record came to lie
        crash_points.point("source.produced")
        # Promise 1 and 5: the offsets are there when the records are, and not before.
        transactions.commit()
        crash_points.point("offsets.written")
        self.fruitful = True
        if topics := self._sender.take_new_topics():
            self._host.tell_topics(topics)
        if offsets:
            try:
                self._services.offsets_committed(self._host.id.connector, offsets)
            except UnreachableError as e:
                raise TransactionLostError(e.message) from e
        self._confirm()
        if offsets:
            tell_source(self._host.id, self._parts.task, offsets)

    def _write_offsets(self, offsets: Sequence[OffsetPair]) -> None:
        connector = self._host.id.connector
        records = self._services.offset_records(connector, offsets)
        for topic in {record.topic for record in records}:
            if topic in self._sender.topics:
                raise ConnectError(f"{_OWN_TOPIC}: {topic}")
        if any(offset is None for _, offset in offsets):
            self._services.before_commit(connector, offsets)
        if self._host.control.stopping:
            self._transactions.wait_until_sent()  # a task that is to end does not wait for room in a full queue
        for run in _runs(records):
            self._parts.producer.send_run(run)

    # --- commit_record

    def _written(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        self._places[id(record)] = metadata

    def _confirm(self) -> None:
        records, places = self._records, self._places
        self._records, self._places = [], {}
        for record in records:
            confirm(self._host.id, self._parts.task, record, places.get(id(record)))


def _runs(records: Sequence[OffsetRecord]) -> list[ProducerRun]:
    """Offset records as runs of one topic each; tombstones are values that are None."""
    topics = dict.fromkeys(record.topic for record in records)
    of = {topic: [record for record in records if record.topic == topic] for topic in topics}
    return [
        ProducerRun(topic, [r.key for r in found], [r.value for r in found], [r.partition for r in found])
        for topic, found in of.items()
    ]
