"""Writes to a compacted topic: single records, or transactions that another writer can fence.

Both writers choose partitions like Java and keep the order of their records.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from connect.errors import ConnectError, FencedError, UnreachableError
from worker.kafka.clients import BrokerNotices, kafka_error, make_producer
from worker.kafka.idempotence import CLIENT_ENDED, NOT_IDEMPOTENT_HINT, find_client_error, is_idempotence_denied, with_idempotence
from worker.kafka.partitioner import JAVA_PARTITIONER

log = logging.getLogger(__name__)

_SLICE_S = 0.1
_CLOSE_TIMEOUT_S = 5.0
_MAX_FAILED_CLIENTS = 3
"""The number of clients that may fail in a row, without anything written, before waiting records fail."""

_FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})

_NOT_ACCEPTED = frozenset({KafkaError._MSG_TIMED_OUT, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})

_FIXED = {
    "acks": "all",
    "max.in.flight.requests.per.connection": "1",
    "partitioner.class": JAVA_PARTITIONER,
    "linger.ms": "0",
    # Kafka's default limit for a request; the client's own is slightly lower.
    "max.request.size": "1048576",
}
_CONFIGURABLE = ("max.request.size", "linger.ms")
"""The keys for which the worker's own setting takes precedence."""


class Written(NamedTuple):
    """The partition and offset of an acknowledged record."""

    partition: int
    offset: int


def writer_settings(java: Mapping[str, str]) -> dict[str, str]:
    """Returns a producer's settings for a log: all replicas acknowledge, the order is kept, and partitions are chosen like in
    Java."""
    return {**java, **_FIXED, **{key: java[key] for key in _CONFIGURABLE if key in java}}


class LogWriter:
    """Writes to one topic. Safe from any thread. Futures are resolved during :meth:`serve` or :meth:`send_all`.

    A client that has failed for good (:mod:`worker.kafka.idempotence`) is replaced; the new one gets the unwritten records, in
    order.
    """

    def __init__(self, java: Mapping[str, str], topic: str) -> None:
        self._topic = topic
        self._bootstrap = java["bootstrap.servers"]
        self._notices = BrokerNotices(self._bootstrap)
        self._settings = with_idempotence(writer_settings(java))
        # Held while records are passed to the client, so that those of a failed client precede new ones.
        self._order = threading.RLock()
        self._waiting: dict[Future[Written], tuple[bytes | None, bytes | None]] = {}
        self._ended: KafkaError | None = None
        self._failed_clients = 0
        self._closing = False
        self._producer = self._new_producer()

    def send(self, key: bytes | None, value: bytes | None) -> Future[Written]:
        """Queues a record. Its future gets the record's location once all replicas have it, or a ConnectError:
        UnreachableError if no broker accepted it in time, so that it may be resent."""
        future: Future[Written] = Future()
        with self._order:
            self._waiting[future] = key, value
            self._produce(future, key, value)
        return future

    def send_all(self, records: Iterable[tuple[bytes | None, bytes | None]], timeout_s: float) -> list[Written]:
        """Sends records in order and returns when all of them are acknowledged.

        Raises the error of the first record that failed, UnreachableError on timeout: some records may have been written then, or
        may still be written later.
        """
        deadline = time.monotonic() + timeout_s
        futures = [self.send(key, value) for key, value in records]
        while not all(future.done() for future in futures):
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise _timeout_error(self._topic, timeout_s, self._bootstrap)
            self._poll(min(_SLICE_S, remaining))
        return [future.result() for future in futures]

    def serve(self) -> None:
        """Handles acknowledgments, without waiting."""
        self._poll(0)

    def close(self) -> None:
        """Waits briefly for acknowledgments; the other records fail."""
        deadline = time.monotonic() + _CLOSE_TIMEOUT_S
        while self._waiting and (remaining := deadline - time.monotonic()) > 0:
            self._poll(min(_SLICE_S, remaining))
        self._closing = True
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        with contextlib.suppress(KafkaException, SystemError):
            self._producer.flush(1.0)
        self._producer.close()
        for future, (key, value) in list(self._waiting.items()):
            self._finish(future, _write_error(KafkaError(KafkaError._PURGE_QUEUE), self._topic, key, value, self._bootstrap))

    def _new_producer(self) -> Producer:
        return make_producer(self._settings, error_cb=self._notices.failure, log_level="0")

    def _produce(self, future: Future[Written], key: bytes | None, value: bytes | None) -> None:
        producer = self._producer

        def done(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._failed_clients = 0
                self._finish(future, Written(message.partition(), message.offset()))
            elif producer is self._producer:
                self._failed(future, error, key, value)

        try:
            producer.produce(self._topic, value, key, on_delivery=done)
        except BufferError:
            self._finish(future, _queue_full_error(self._topic, self._bootstrap))
        except KafkaException as e:
            self._failed(future, e.args[0], key, value)

    def _failed(self, future: Future[Written], error: KafkaError, key: bytes | None, value: bytes | None) -> None:
        if error.code() in CLIENT_ENDED and not self._closing:
            self._ended = self._ended or error  # the record waits for the next client
        else:
            self._finish(future, _write_error(error, self._topic, key, value, self._bootstrap))

    def _finish(self, future: Future[Written], outcome: Written | ConnectError) -> None:
        if self._waiting.pop(future, None) is None:
            return
        if isinstance(outcome, ConnectError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    def _poll(self, timeout_s: float) -> None:
        try:
            self._producer.poll(timeout_s)
        except (KafkaException, SystemError) as e:
            self._ended = find_client_error(e)
        if self._ended is not None:
            self._replace()

    def _replace(self) -> None:
        with self._order:
            error, self._ended = self._ended, None
            if error is None:
                return
            if is_idempotence_denied(error):
                self._settings["enable.idempotence"] = "false"
                log.warning("Writing to %s without idempotence: %s. %s", self._topic, error.str(), NOT_IDEMPOTENT_HINT)
            else:
                log.warning("Replacing the producer for topic %s after a fatal error: %s", self._topic, error.str())
                self._failed_clients += 1
            ended, self._producer = self._producer, self._new_producer()
            given_up = self._failed_clients > _MAX_FAILED_CLIENTS
            waiting = list(self._waiting.items())
            if not given_up:
                for future, (key, value) in waiting:
                    self._produce(future, key, value)
        ended.purge(in_queue=True, in_flight=True, blocking=False)
        if given_up:
            for future, (key, value) in waiting:
                self._finish(future, _write_error(error, self._topic, key, value, self._bootstrap))


class TransactionalWriter:
    """Writes to one topic, each call of :meth:`send_all` in one transaction. Safe from any thread.

    A new writer with the same ``transactional.id`` fences all others. After a FencedError a writer is unusable.
    """

    def __init__(self, java: Mapping[str, str], topic: str, timeout_s: float) -> None:
        """Initializes the transactional id and ends the open transaction of a previous writer. Raises UnreachableError or
        ConnectError."""
        self._topic = topic
        self._bootstrap = java["bootstrap.servers"]
        self._id = java["transactional.id"]
        self._lock = threading.Lock()
        self._notices = BrokerNotices(self._bootstrap)
        settings = {**writer_settings(java), "enable.idempotence": "true"}
        self._client: Producer | None = make_producer(settings, error_cb=self._notices.failure, log_level="0")
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._producer.init_transactions(max(0.1, deadline - time.monotonic()))
                return
            except KafkaException as e:
                error = e.args[0]
                if error.retriable() and time.monotonic() < deadline:
                    self._producer.poll(_SLICE_S)
                    continue
                self._client = None
                raise self._error(error, "taking over the right to write") from e

    def send_all(self, records: Iterable[tuple[bytes, bytes | None]], timeout_s: float) -> list[Written]:
        """Writes all the records or none, and returns when they are committed.

        Raises FencedError if another writer has claimed the topic, or if this one is in an unknown state.
        """
        with self._lock:
            deadline = time.monotonic() + timeout_s
            try:
                self._producer.begin_transaction()
                futures = []
                for key, value in records:
                    futures.append(Future[Written]())
                    _produce(self._producer, self._topic, self._bootstrap, key, value, futures[-1])
                self._commit(deadline)
            except KafkaException as e:
                self._abort(e.args[0])
                raise self._error(e.args[0], "writing") from e
            for future in futures:
                if future.done() and (error := future.exception()) is not None:
                    raise self._fenced(str(error)) from error
            return [future.result(0) for future in futures]

    def close(self) -> None:
        """Closes the client. An open transaction is ended by the next writer, or by the broker after its timeout."""
        with self._lock:
            producer, self._client = self._client, None
            if producer is not None:
                producer.purge(in_queue=True, in_flight=True, blocking=False)
            # Not close(): it would abort, which a fenced producer may not do. Without references the client ends.

    @property
    def _producer(self) -> Producer:
        if self._client is None:
            raise self._fenced("this writer was closed")
        return self._client

    def _commit(self, deadline: float) -> None:
        while True:
            try:
                self._producer.commit_transaction(max(0.1, deadline - time.monotonic()))
                return
            except KafkaException as e:
                if not e.args[0].retriable() or time.monotonic() >= deadline:
                    raise

    def _abort(self, error: KafkaError) -> None:
        if not error.fatal():
            with contextlib.suppress(KafkaException):
                self._producer.abort_transaction(1.0)

    def _error(self, error: KafkaError, doing: str) -> ConnectError:
        if error.code() in _FENCED or error.fatal():
            return self._fenced(f"another worker has taken over the right to write ({error.name()})")
        found = kafka_error(error, f"{doing} to topic {self._topic}", self._bootstrap)
        # After any failure the client's state is not known well enough to continue.
        return found if doing != "writing" else self._fenced(found.message)

    def _fenced(self, why: str) -> FencedError:
        return FencedError(
            f"Failed to write to topic {self._topic} as {self._id}; this may be due to a transient error and the request can be "
            f"safely retried: {why}"
        )


def _produce(
    producer: Producer, topic: str, bootstrap: str, key: bytes, value: bytes | None, future: Future[Written]
) -> None:  # fmt: skip
    def done(error: KafkaError | None, message: Message) -> None:
        if error is None:
            future.set_result(Written(message.partition(), message.offset()))
        else:
            future.set_exception(_write_error(error, topic, key, value, bootstrap))

    try:
        producer.produce(topic, value, key, on_delivery=done)
    except BufferError:
        future.set_exception(_queue_full_error(topic, bootstrap))
    except KafkaException as e:
        if e.args[0].code() == KafkaError._STATE:
            raise
        future.set_exception(_write_error(e.args[0], topic, key, value, bootstrap))


def _write_error(error: KafkaError, topic: str, key: bytes | None, value: bytes | None, bootstrap: str) -> ConnectError:
    shown = "" if key is None else f" (key {key[:80].decode('utf-8', 'backslashreplace')})"
    what = f"a record for topic {topic}{shown} was not written"
    if error.code() in _NOT_ACCEPTED:
        return UnreachableError(f"{what}: no broker at {bootstrap} took it in time ({error.name()})")
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        size = len(key or b"") + len(value or b"")
        return ConnectError(
            f"{what}: it has {size} bytes, which is more than is allowed. Raise max.request.size of the worker and "
            "max.message.bytes of the topic"
        )
    return kafka_error(error, what, bootstrap)


def _queue_full_error(topic: str, bootstrap: str) -> UnreachableError:
    return UnreachableError(f"too many records for topic {topic} wait for the broker at {bootstrap}")


def _timeout_error(topic: str, timeout_s: float, bootstrap: str) -> UnreachableError:
    return UnreachableError(
        f"writing to topic {topic} was not acknowledged within {timeout_s:g} s. Check that the brokers at {bootstrap} run, and "
        "that enough replicas of the topic are in sync"
    )
