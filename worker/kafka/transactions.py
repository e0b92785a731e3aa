"""Transactions of one source task's producer: begun by the first record, committed or aborted as a whole.

The client distinguishes three kinds of errors: retriable ones (a commit that takes long continues in the client, and the next
call waits for it), those that require an abort (a record was rejected), and fatal ones (the producer was fenced). A fenced
producer writes nothing more, whatever its task does (promise 4).

Brokers fence a producer with the same error in two cases: another producer has initialized its transactional id, or its
transaction was open for longer than ``transaction.timeout.ms``. The age of the transaction identifies the second case; if both
are possible, as in a worker that was frozen, only the worker group can tell.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, KafkaException

from connect.errors import ConnectError
from worker.kafka.clients import UNREACHABLE, kafka_error
from worker.kafka.idempotence import PURGED
from worker.kafka.record_producer import ProduceCancelled, ProducerLostError, RecordProducer

log = logging.getLogger(__name__)

_SLICE_S = 0.5
"""The duration of one call of the client; between calls we check whether the task must stop."""
_CLOSE_S = 1.0
_WARN_S = 10.0
_DEFAULT_TIMEOUT_MS = 60000

FENCED = "There is a newer producer with the same transactionalId which fences the current one."
_FENCED_CODES = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_UNKNOWN_PRODUCER_CODES = frozenset({KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError.UNKNOWN_PRODUCER_ID})
_EXPIRED_CODES = (
    _FENCED_CODES
    | _UNKNOWN_PRODUCER_CODES
    | {KafkaError._INCONSISTENT, KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError.INVALID_TXN_STATE}
)
"""Errors of a transaction that the broker has aborted, or would abort if it were available."""
_TEMPORARY_CODES = UNREACHABLE | {
    KafkaError.UNKNOWN,  # from a coordinator that could not write its log, as seen after it was frozen
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
"""Temporary errors of brokers or the network after which the client gives up the transaction. It may be committed
nevertheless: the stored offsets show it."""


class ProducerFencedError(ConnectError):
    """Another producer has initialized the transactional id: the task runs elsewhere, or is about to."""


class TransactionLostError(ConnectError):
    """The transaction was not and will not be committed, because of brokers rather than records. If the task still belongs to
    this worker, it may restart from its last committed offsets."""

    def __init__(self, message: str, reason: str | None = None) -> None:
        """``reason`` is a shorter message for a task that restarts."""
        super().__init__(message)
        self.reason = reason or message


class TransactionExpiredError(TransactionLostError):
    """The transaction was open for longer than ``transaction.timeout.ms``; the broker has aborted it."""


class Transactions:
    """Used on the task's thread only. ``open`` says whether there is an open transaction."""

    def __init__(
        self,
        producer: RecordProducer,
        java: Mapping[str, str],
        task: str,
        *,
        stopping: Callable[[], bool],
        last_s: float,
    ) -> None:
        """``java`` are the producer's settings; ``task`` is for messages. Once ``stopping`` returns True, all waits together
        end within ``last_s`` seconds."""
        self.id = java["transactional.id"]
        self.open = False
        self._producer = producer
        self._task = task
        self._stopping = stopping
        self._last_s = last_s
        self._give_up_at: float | None = None
        self._timeout_s = int(java.get("transaction.timeout.ms", _DEFAULT_TIMEOUT_MS)) / 1000
        self._started_at = 0.0
        self._started_at_epoch = 0.0

    def init(self) -> bool:
        """Initializes the transactional id: fences its previous producer and aborts that one's open transaction.

        Waits until a broker answers. Returns False if the task must stop first; raises ConnectError if the broker rejects the
        request.
        """
        warned_at = time.monotonic()
        # Not if the task must stop: that would fence its successors.
        while not self._stopping() and not self._producer.cancelled:
            try:
                self._producer.client.init_transactions(_SLICE_S)
                return True
            except KafkaException as e:
                error = e.args[0]
                if error.fatal() or not (error.retriable() or error.code() in _TEMPORARY_CODES):
                    raise kafka_error(error, f"initializing transactions as {self.id}", self._producer.bootstrap) from e
                if time.monotonic() - warned_at > _WARN_S:
                    warned_at = time.monotonic()
                    log.warning("Task %s waits for the coordinator of transactional id %s: %s", self._task, self.id, error.str())
            self._producer.serve()
        return False

    def begin(self) -> None:
        """Opens a transaction unless there is one. The broker learns of it with the first record. Raises ConnectError."""
        if not self.open:
            try:
                self._producer.client.begin_transaction()
            except KafkaException as e:
                raise self._failed(e.args[0]) from e
            self.open = True
            self._started_at, self._started_at_epoch = time.monotonic(), time.time()

    def commit(self) -> None:
        """Commits the transaction: on return all its records are visible to readers of committed records.

        Waits while no broker answers. Raises ConnectError if the transaction will never be committed; ProduceCancelled if the
        task must stop before the result is known, which the next holder of the transactional id will find out.
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
        """Aborts the transaction and discards its unsent records. Raises like :meth:`commit`."""
        if not self.open:
            return
        # Promise 4: the broker itself aborts an expired transaction. To abort it, the client would request a new epoch, and
        # brokers then abort whatever transaction is open, even that of another producer that has the id by now.
        if self._is_expired:
            raise self._expired("before it could be aborted")
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
        """Waits until the broker has acknowledged what was sent so far. Raises like :meth:`commit`."""
        while not self._producer.drain(_SLICE_S):
            if self._is_over():
                raise ProduceCancelled

    def give_up(self) -> None:
        """Aborts an open transaction after a failure, so that readers need not wait until it expires. Never raises: the next
        holder of the transactional id aborts what cannot be aborted now."""
        self._give_up_at = time.monotonic() + _CLOSE_S
        try:
            self.abort()
        except (ConnectError, ProduceCancelled) as e:
            log.debug("Task %s leaves its open transaction to its successor or the transaction timeout: %s", self._task, e)

    def _is_over(self) -> bool:
        if self._give_up_at is None and self._stopping():
            self._give_up_at = time.monotonic() + self._last_s
        return self._producer.cancelled or (self._give_up_at is not None and time.monotonic() >= self._give_up_at)

    @property
    def broker_unavailable(self) -> bool:
        """Whether a broker was unavailable at any time since the transaction started."""
        return self._producer.unavailable_at > self._started_at

    def explain(self, error: ConnectError) -> ConnectError:
        """Returns what the error means for the transaction: the producer was fenced, or the transaction has expired; else the
        error."""
        if isinstance(error, TransactionLostError | ProducerLostError):
            return error
        cause = self._producer.fatal or self._producer.failed_by
        if cause is None or cause.code() in PURGED:
            cause = self._reason_to_abort() or cause
        if cause is None:
            return error
        meaning = self._failed(cause)
        return meaning if isinstance(meaning, ProducerFencedError | TransactionLostError) else error

    def _reason_to_abort(self) -> KafkaError | None:
        """Returns why the client accepts no more records for the open transaction. The errors of records it discards do not
        say why."""
        if self.open and not self._producer.cancelled:
            try:
                self._producer.client.begin_transaction()  # fails inside a transaction, with the reason if there is one
            except KafkaException as e:
                error: KafkaError = e.args[0]
                if error.fatal() or error.txn_requires_abort():
                    return error
        return None

    @property
    def _is_expired(self) -> bool:
        # Two clocks, because one stops while the machine sleeps.
        return self.open and max(time.monotonic() - self._started_at, time.time() - self._started_at_epoch) > self._timeout_s

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
        if error.code() in _UNKNOWN_PRODUCER_CODES:
            return TransactionLostError(
                f"{what}: the broker no longer knows its producer, as after transactional.id.expiration.ms without a "
                f"transaction (transactional.id {self.id}; {error.str()})"
            )
        if error.code() in _TEMPORARY_CODES:
            return TransactionLostError(kafka_error(error, what, self._producer.bootstrap).message)
        if error.code() in _FENCED_CODES:
            return ProducerFencedError(
                f"{what}: org.apache.kafka.common.errors.ProducerFencedException: {FENCED} "
                f"(transactional.id {self.id}: another worker has this task now, or its connector was reconfigured or stopped)"
            )
        try:
            self._producer.raise_error()
        except ProducerLostError as lost:
            return lost
        except ConnectError as first:
            # The error of the record says more than that the transaction cannot continue.
            return type(first)(f"{what}: {first.message}")
        return kafka_error(error, what, self._producer.bootstrap)
