"""Transactions of one source task's producer: begun when there is something to write, committed or aborted as a whole.

The client tells three kinds of errors apart, and so does this: what may be tried again (a commit that takes long: it goes on in
the client, and the next call waits for it), what can only be aborted (a record was not taken), and what has ended the producer
(fenced). A fenced producer writes nothing more, whatever its task does (promise 4).

Brokers fence a producer in two cases, with the same error: another one has taken its id over, and its transaction was open for
longer than ``transaction.timeout.ms``. The age of the transaction tells the second; whether both have come to pass, as in a
worker that was frozen, only the group of workers can tell.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, KafkaException

from connect.errors import ConnectError
from worker.kafka.clients import UNREACHABLE, kafka_error
from worker.kafka.idempotence import PURGED
from worker.kafka.record_producer import ProduceCancelled, RecordProducer

log = logging.getLogger(__name__)

_SLICE_S = 0.5
"""How long one call of the client may take: in between it is looked whether the task is to end."""
_CLOSE_S = 1.0
_WARN_S = 10.0
_DEFAULT_TIMEOUT_MS = 60000

FENCED = "There is a newer producer with the same transactionalId which fences the current one."
_FENCED_CODES = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_FORGOTTEN_CODES = frozenset({KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError.UNKNOWN_PRODUCER_ID})
_EXPIRED_CODES = (
    _FENCED_CODES
    | _FORGOTTEN_CODES
    | {KafkaError._INCONSISTENT, KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError.INVALID_TXN_STATE}
)
"""What may be told of a transaction that the broker has aborted, or would when it was there."""
_PASSING_CODES = UNREACHABLE | {
    KafkaError.UNKNOWN,  # of a coordinator that could not write its log, as seen of one that had been frozen
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.INVALID_TXN_STATE,
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
}
"""Troubles of brokers and of the way to them, of which the client knows no better than to give the transaction up. It may be
committed all the same: what is, the offsets tell."""


class ProducerFencedError(ConnectError):
    """Another producer has taken the transactional id over: the task runs somewhere else by now, or is about to."""


class TransactionLostError(ConnectError):
    """The transaction is not committed, and will not be, by nobody's fault. Its task may begin again from what is committed, if
    it is still its worker's."""

    def __init__(self, message: str, reason: str | None = None) -> None:
        """``reason`` is a shorter message for a task that goes on."""
        super().__init__(message)
        self.reason = reason or message


class TransactionExpiredError(TransactionLostError):
    """The transaction was open for longer than ``transaction.timeout.ms``; the broker has aborted it."""


class Transactions:
    """Used on the task's thread only. ``open`` says whether there is a transaction to be ended."""

    def __init__(
        self,
        producer: RecordProducer,
        java: Mapping[str, str],
        task: str,
        *,
        stopping: Callable[[], bool],
        last_s: float,
    ) -> None:
        """``java`` are the producer's settings; ``task`` is for messages. Once ``stopping`` says True, waits end within
        ``last_s`` seconds, all together."""
        self.id = java["transactional.id"]
        self.open = False
        self._producer = producer
        self._task = task
        self._stopping = stopping
        self._last_s = last_s
        self._give_up_at: float | None = None
        self._timeout_s = int(java.get("transaction.timeout.ms", _DEFAULT_TIMEOUT_MS)) / 1000
        self._began = 0.0
        self._began_epoch = 0.0

    def init(self) -> bool:
        """Takes the transactional id over: whoever had it is fenced, and what that one left open is aborted.

        Waits for as long as no broker answers; False when the task is to end before it is done. Raises ConnectError when the
        broker refuses.
        """
        warned_at = time.monotonic()
        # Not when the task is to end already: it would fence those that came after it.
        while not self._stopping() and not self._producer.cancelled:
            try:
                self._producer.client.init_transactions(_SLICE_S)
                return True
            except KafkaException as e:
                error = e.args[0]
                if error.fatal() or not (error.retriable() or error.code() in _PASSING_CODES):
                    raise kafka_error(error, f"initializing transactions as {self.id}", self._producer.bootstrap) from e
                if time.monotonic() - warned_at > _WARN_S:
                    warned_at = time.monotonic()
                    log.warning("Task %s waits for the coordinator of transactional id %s: %s", self._task, self.id, error.str())
            self._producer.serve()
        return False

    def begin(self) -> None:
        """Opens a transaction unless there is one. Raises ConnectError. The broker hears of it with the first record."""
        if not self.open:
            try:
                self._producer.client.begin_transaction()
            except KafkaException as e:
                raise self._failed(e.args[0]) from e
            self.open = True
            self._began, self._began_epoch = time.monotonic(), time.time()

    def commit(self) -> None:
        """Ends the transaction: all of its records are visible on return, to readers of what is committed.

        Waits while no broker answers. Raises ConnectError when it is not committed and will not be, ProduceCancelled when the
        task is to end and that is not known: whoever has the transactional id next will find out.
        """
        while not self._is_over():
            try:
                self._producer.client.commit_transaction(_SLICE_S)
            except KafkaException as e:
                error = e.args[0]
                if error.fatal() or error.txn_requires_abort() or not error.retriable():
                    raise self._failed(error) from e
            else:
                self.open = False
                return
        raise ProduceCancelled

    def abort(self) -> None:
        """Throws the transaction away, and what is not sent of it yet. Raises as :meth:`commit` does."""
        if not self.open:
            return
        # Promise 4: one that has expired the broker aborts by itself. To abort it the client would ask for another epoch, and for
        # that brokers abort what is open at the time, also when it is another producer's that has the id by now.
        if self._is_expired:
            raise self._expired("it was to be aborted")
        with self._producer.discarding():
            while not self._is_over():
                try:
                    self._producer.client.abort_transaction(_SLICE_S)
                except KafkaException as e:
                    error = e.args[0]
                    if error.fatal() or not error.retriable():
                        raise self._failed(error) from e
                else:
                    self.open = False
                    return
        raise ProduceCancelled

    def wait_until_sent(self) -> None:
        """Waits until the broker has acknowledged what was sent so far. Raises as :meth:`commit` does."""
        while not self._producer.drain(_SLICE_S):
            if self._is_over():
                raise ProduceCancelled

    def give_up(self) -> None:
        """At the end, after a failure: aborts what is open, so that readers need not wait until it expires. Never raises; what
        cannot be aborted now, is by the next holder of the transactional id."""
        self._give_up_at = time.monotonic() + _CLOSE_S
        try:
            self.abort()
        except (ConnectError, ProduceCancelled) as e:
            log.debug("Task %s leaves its transaction to its successor or its time-out: %s", self._task, e)

    def _is_over(self) -> bool:
        if self._give_up_at is None and self._stopping():
            self._give_up_at = time.monotonic() + self._last_s
        return self._producer.cancelled or (self._give_up_at is not None and time.monotonic() >= self._give_up_at)

    @property
    def broker_unavailable(self) -> bool:
        """Whether a broker was seen to be away since the transaction began."""
        return self._producer.unavailable_at > self._began

    def explain(self, error: ConnectError) -> ConnectError:
        """The same error, or what it means for the transaction: the producer was fenced, or time is over."""
        if isinstance(error, TransactionLostError):
            return error
        cause = self._producer.fatal or self._producer.failed_by
        if cause is None or cause.code() in PURGED:
            cause = self._reason_to_abort() or cause
        if cause is None:
            return error
        meaning = self._failed(cause)
        return meaning if isinstance(meaning, ProducerFencedError | TransactionLostError) else error

    def _reason_to_abort(self) -> KafkaError | None:
        """Why the client takes no more for the open transaction. What it throws away for that does not tell."""
        if self.open and not self._producer.cancelled:
            try:
                self._producer.client.begin_transaction()  # which is refused in a transaction, with the reason if there is one
            except KafkaException as e:
                error: KafkaError = e.args[0]
                if error.fatal() or error.txn_requires_abort():
                    return error
        return None

    @property
    def _is_expired(self) -> bool:
        # By two clocks: one stands still while the machine sleeps.
        return self.open and max(time.monotonic() - self._began, time.time() - self._began_epoch) > self._timeout_s

    def _expired(self, detail: str) -> TransactionExpiredError:
        return TransactionExpiredError(
            f"The task {self._task} was unable to finish writing records to Kafka before its producer transaction expired. "
            "It may be necessary to reconfigure this connector in order for it to run healthily with exactly-once support. "
            "Options for this include: tune the connector's producer configuration for higher throughput, "
            "increase the transaction timeout for the connector's producers, "
            "decrease the offset commit interval (if using interval-based transaction boundaries), "
            "or use the 'poll' transaction boundary (if the connector is not already configured to use it). "
            f"(producer.override.transaction.timeout.ms is {int(self._timeout_s * 1000)}; {detail})",
            f"its transaction was open for longer than transaction.timeout.ms={int(self._timeout_s * 1000)}, as "
            f"{'no broker took it' if self.broker_unavailable else 'it was not committed'} in time ({detail})",
        )

    def _failed(self, error: KafkaError) -> ConnectError:
        if self._is_expired and error.code() in _EXPIRED_CODES:
            return self._expired(error.str())
        what = f"Failed to flush offsets and/or records for task {self._task}"
        if error.code() in _FORGOTTEN_CODES:
            return TransactionLostError(
                f"{what}: the broker does not know its producer any more, as after transactional.id.expiration.ms without a "
                f"transaction (transactional.id {self.id}; {error.str()})"
            )
        if error.code() in _PASSING_CODES:
            return TransactionLostError(kafka_error(error, what, self._producer.bootstrap).message)
        if error.code() in _FENCED_CODES:
            return ProducerFencedError(
                f"{what}: org.apache.kafka.common.errors.ProducerFencedException: {FENCED} "
                f"(transactional.id {self.id}: another worker has this task now, or its connector was reconfigured or stopped)"
            )
        try:
            self._producer.raise_error()
        except ConnectError as first:
            # What happened to the record says more than that the transaction cannot go on for it.
            return type(first)(f"{what}: {first.message}")
        return kafka_error(error, what, self._producer.bootstrap)
