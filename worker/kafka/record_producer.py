"""A producer for one source task: keeps the order, keeps the first error, and counts acknowledgments per batch.

Successful deliveries cost no Python call: ``delivery.report.only.error`` makes the client call back for failures only (seen in
confluent-kafka 2.16: reports of successes are handled in C), and the number of unacknowledged records is the length of the
producer. Measured per million records of 100 bytes: 0.9 CPU seconds, compared to 1.5 with a callback for each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import repeat
from operator import length_hint
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from connect.errors import ConnectError
from connect.text_records import Frame
from worker.kafka.batch_size import BatchSizeCheck
from worker.kafka.clients import UNAUTHORIZED, UNREACHABLE, BrokerNotices, kafka_error, make_producer
from worker.kafka.idempotence import CLIENT_ENDED, PURGED, find_client_error, is_idempotence_denied

_SLICE_S = 0.1
"""How long to wait before checking whether the task must stop."""

_SEND_WAIT_S = 0.001

HeaderBytes = list[tuple[str, bytes | None]]
DeliveryCallback = Callable[[KafkaError | None, Message], None]

_NOT_ABOUT_THE_RECORD = UNREACHABLE | UNAUTHORIZED | CLIENT_ENDED | {KafkaError._MSG_TIMED_OUT, KafkaError._STATE}
"""Codes that other records would get too."""


class ProducerRun(NamedTuple):
    """Consecutive records of one topic, as columns. None leaves a column to the producer."""

    topic: str
    keys: list[bytes | None]
    values: list[bytes | None]
    partitions: list[int] | None = None
    """-1 leaves a record's partition to the producer."""
    timestamps: list[int] | None = None
    """0 means now."""
    headers: list[HeaderBytes | None] | None = None
    key_prefix: bytes | None = None
    """If set, each key that is not None is the part of a message between this text and ``}``
    (:class:`connect.text_records.PayloadWriter`). Only producers that ask for it get such runs."""
    value_prefix: bytes | None = None
    """The same for values."""
    value_frame: Frame | None = None
    """If set, values lack these texts at their start and end, too (:class:`connect.text_records.FramedWriter`)."""
    columns: Any = None
    """If set, an Arrow array of keys and values (:mod:`connect.spool.record_columns`), which are None here. Only producers that
    ask for it get such runs."""

    def after(self, count: int) -> ProducerRun:
        """Returns the run without its first ``count`` records."""
        return self.slice(slice(count, None)) if count else self

    def slice(self, part: slice) -> ProducerRun:
        """Returns the run with some of its records."""
        names = "keys", "values", "partitions", "timestamps", "headers", "columns"
        return self._replace(**{name: column[part] for name in names if (column := getattr(self, name)) is not None})


def is_about_the_record(error: KafkaError) -> bool:
    """Whether the record itself was rejected, so that it may be skipped if failures are tolerated."""
    return not error.fatal() and not error.retriable() and error.code() not in _NOT_ABOUT_THE_RECORD


class RecordMetadata(NamedTuple):
    """Where an acknowledged record was written (``commit_record``)."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None


class RecordRejectedError(ConnectError):
    """The client or the broker rejects this record permanently; others may be accepted."""


class ProducerLostError(ConnectError):
    """The idempotent client has failed, for a reason other than a record. A new client can continue after the last
    acknowledged record."""

    def __init__(self, message: str, *, idempotence_denied: bool = False, batch_too_large: bool = False) -> None:
        """``idempotence_denied``: the broker assigns no producer ID at all, or not to this principal. Nothing was written
        then. ``batch_too_large``: the topic takes smaller batches only."""
        super().__init__(message)
        self.idempotence_denied = idempotence_denied
        self.batch_too_large = batch_too_large


def unrecoverable(error: ConnectError) -> ConnectError:
    """Returns the error of a record that must fail its task. Its message starts like Apache's, for scripts."""
    return type(error)(f"Unrecoverable exception from producer send callback: {error.message}")


class ProduceCancelled(Exception):
    """Sending was given up because the task must stop. Not an error."""


class RecordProducer:
    """Used by its task's thread only, except :meth:`cancel`."""

    def __init__(
        self,
        java: Mapping[str, str],
        *,
        stopping: Callable[[], bool],
        confirms_each: bool = False,
        replaceable: bool = False,
        smaller_batch_size: int = 0,
    ) -> None:
        """``stopping`` is called while the broker accepts no records; True gives up (ProduceCancelled).

        With ``confirms_each``, every record is sent by :meth:`send_one`, whose callbacks also report success. A ``replaceable``
        producer raises ProducerLostError if the client has failed rather than a record. So does one with a
        ``smaller_batch_size`` if the broker refuses a batch whose record would fit into one of this size.
        """
        self.bootstrap = java["bootstrap.servers"]
        self._stopping = stopping
        self._replaceable = replaceable
        self._batch_size = BatchSizeCheck(java, smaller_batch_size)
        self._java = java
        self._error: ConnectError | None = None
        self._cancelled = False
        self._discarding = False
        self.fatal: KafkaError | None = None
        """The fatal error of the client, as when a transactional producer was fenced."""
        self.failed_by: KafkaError | None = None
        """The client's error behind the first one that :meth:`raise_error` raises."""
        self.sent = 0
        self.unavailable_at = 0.0
        """``time.monotonic()`` when a broker was last seen to be unavailable."""
        self._notices = BrokerNotices(self.bootstrap)
        callbacks = {
            "on_delivery": self._on_delivery,
            "error_cb": self._on_client_error,
            "delivery.report.only.error": not confirms_each,
        }
        self._transactional = "transactional.id" in java
        self._producer = make_producer(java, **callbacks)

    @property
    def client(self) -> Producer:
        """The underlying client, for :mod:`worker.kafka.transactions`."""
        return self._producer

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def __len__(self) -> int:
        """The number of unacknowledged records."""
        return len(self._producer)

    def send_run(self, run: ProducerRun, on_delivery: DeliveryCallback | None = None) -> None:
        """Sends records of one topic, in order. ``on_delivery`` is called for failures instead of :meth:`record_error`.

        Raises RecordRejectedError for a record that can never be sent, ProduceCancelled if the task must stop; ``sent`` is then
        the number of these records that were passed to the client.
        """
        if self._cancelled:
            raise ProduceCancelled
        self.sent = 0
        topic, produce = run.topic, self._producer.produce
        keys = iter(run.keys)
        # Arguments by position, in the client's order: topic, value, key, partition, two callbacks, timestamp, headers.
        try:
            if run.headers is None and run.partitions is None and run.timestamps is None and on_delivery is None:
                for key, value in zip(keys, run.values, strict=True):
                    try:
                        produce(topic, value, key)
                    except (BufferError, KafkaException) as e:
                        self._send_again(e, topic, value, key)
            else:
                partitions, timestamps, headers = run.partitions, run.timestamps, run.headers
                columns = zip(
                    keys,
                    run.values,
                    repeat(-1) if partitions is None else partitions,
                    repeat(0) if timestamps is None else timestamps,
                    repeat(None) if headers is None else headers,
                    strict=False,  # repeat() is endless
                )
                for key, value, partition, timestamp, named in columns:
                    try:
                        produce(topic, value, key, partition, on_delivery, None, timestamp, named)
                    except (BufferError, KafkaException) as e:
                        self._send_again(e, topic, value, key, partition, on_delivery, None, timestamp, named)
        except (ConnectError, ProduceCancelled):
            self.sent = len(run.keys) - length_hint(keys) - 1
            raise
        self.sent = len(run.keys)

    def send_one(self, run: ProducerRun, on_delivery: DeliveryCallback) -> None:
        """Sends a run of one record. ``on_delivery`` is called for success too, during :meth:`serve` or a wait."""
        if self._cancelled:
            raise ProduceCancelled
        value, key = run.values[0], run.keys[0]
        rest = (
            run.partitions[0] if run.partitions else -1,
            # The client uses the first of the two callback parameters even if it is None.
            on_delivery,
            None,
            run.timestamps[0] if run.timestamps else 0,
            run.headers[0] if run.headers else None,
        )
        try:
            self._producer.produce(run.topic, value, key, *rest)
        except (BufferError, KafkaException) as e:
            self._send_again(e, run.topic, value, key, *rest)

    def _send_again(
        self, error: BufferError | KafkaException, topic: str, value: bytes | None, key: bytes | None, *rest: Any
    ) -> None:
        """Retries while the queue is full because the broker is slow or unavailable. The queue bounds the memory that this
        needs."""
        while isinstance(error, BufferError):
            self._poll(_SLICE_S)
            self.raise_error()
            if self._cancelled or self._stopping():
                raise ProduceCancelled
            empty = not len(self._producer)
            try:
                self._producer.produce(topic, value, key, *rest)
            except (BufferError, KafkaException) as e:
                if empty and isinstance(e, BufferError):
                    size = len(key or b"") + len(value or b"")
                    raise RecordRejectedError(
                        f"a record for topic {topic} ({_key_hint(key)}, {size} bytes) does not fit into the producer's memory, "
                        f"buffer.memory={self._java.get('buffer.memory', '33554432')}; raise producer.override.buffer.memory"
                    ) from e
                error = e
            else:
                return
        raise self._refused(error.args[0], topic, key, value) from error

    def serve(self) -> None:
        """Handles delivery reports. Raises the error of a record that failed since the last call."""
        self._poll(0)
        self.raise_error()

    def send_now(self) -> None:
        """Sends what ``linger.ms`` would hold back. Waits a millisecond, so that the client's threads notice."""
        if len(self._producer):
            self._flush(_SEND_WAIT_S)

    def _poll(self, timeout_s: float) -> None:
        try:
            self._producer.poll(timeout_s)
        except (KafkaException, SystemError) as e:
            self._ended(find_client_error(e))

    def _flush(self, timeout_s: float) -> int:
        try:
            left: int = self._producer.flush(timeout_s)
        except (KafkaException, SystemError) as e:
            self._ended(find_client_error(e))
            left = len(self._producer)
        return left

    def _ended(self, error: KafkaError) -> None:
        # A fatal error is not passed to the client's callbacks but raised by the call during which it occurred.
        if self.fatal is None and error.fatal():
            self.fatal = error
        if self._error is None:
            self._error, self.failed_by = kafka_error(error, "talking to Kafka", self.bootstrap), error

    def drain(self, timeout_s: float) -> bool:
        """Waits until every record is acknowledged. Returns False on timeout.

        Raises ConnectError if a record failed: not everything up to here is in Kafka then.
        """
        deadline = time.monotonic() + timeout_s
        while self._flush(max(0.0, min(_SLICE_S, deadline - time.monotonic()))):
            self.raise_error()
            if self._cancelled or time.monotonic() >= deadline:
                return False
        self.raise_error()
        return True

    def raise_error(self) -> None:
        """Raises the first delivery error, on every call."""
        if not self._cancelled and (lost := self._lost()) is not None:
            raise lost
        if self._error is not None:
            raise self._error.with_traceback(None)

    def _lost(self) -> ProducerLostError | None:
        if self._batch_size.refusal is not None:
            return ProducerLostError(self._batch_size.refusal, batch_too_large=True)
        ended_by = self.failed_by if self.failed_by is not None and self.failed_by.code() in CLIENT_ENDED else None
        error = self.fatal or ended_by
        if error is None or not self._replaceable:
            return None
        message = kafka_error(error, "writing records", self.bootstrap).message
        return ProducerLostError(message, idempotence_denied=is_idempotence_denied(error))

    def cancel(self) -> None:
        """Discards queued records and sends nothing more. Called from another thread; does not wait."""
        self._cancelled = True
        if (client := self._producer) is not None:
            client.purge(in_queue=True, in_flight=True, blocking=False)

    def close(self) -> None:
        """Closes the client without waiting for acknowledgments."""
        self._cancelled = True
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        # Failures of the purged records must not be reported.
        self._error = self._error or ConnectError("closed")
        if self._transactional:
            # The client's close() would first continue an open transaction, for a minute if no broker answers. It has been given
            # up by now; without references the client ends at once.
            self._producer = None
        else:
            self._flush(1.0)
            self._producer.close()

    @contextmanager
    def discarding(self) -> Iterator[None]:
        """Ignores failures of records while their transaction is aborted, including earlier ones."""
        self._discarding = True
        try:
            yield
            if self.fatal is None:
                self._error = self.failed_by = None
        finally:
            self._discarding = False

    def record_error(self, error: KafkaError, message: Message) -> None:
        """Stores the error of a record; the first one counts.

        In a transaction, the failure of one record makes others fail too, which may be reported first: an error of a record
        itself takes precedence.
        """
        if error.fatal() and self.fatal is None:
            self.fatal = error
        if self._discarding and error.code() in PURGED:
            return
        self.is_refused_batch(error, message)
        known = self.failed_by
        is_more_specific = (
            self._transactional and known is not None and is_about_the_record(error) and not is_about_the_record(known)
        )
        if self._error is None or is_more_specific:
            self._error = unrecoverable(self.delivery_error(error, message.topic(), message.key(), message.value()))
            self.failed_by = error

    def is_refused_batch(self, error: KafkaError, message: Message) -> bool:
        """Whether a smaller ``batch.size`` may avoid the error. :meth:`raise_error` raises ProducerLostError then."""
        return self._batch_size.is_to_blame(error, message)

    def _on_client_error(self, error: KafkaError) -> None:
        if error.code() in UNREACHABLE:
            self.unavailable_at = time.monotonic()
        failure = self._notices.failure(error)
        if failure is not None and self._error is None:
            self._error = failure

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.record_error(error, message)

    def delivery_error(self, error: KafkaError, topic: str | None, key: Any, value: Any) -> ConnectError:
        """Returns the error for a record that the broker rejected."""
        size = len(key or b"") + len(value or b"")
        what = f"a record for topic {topic} ({_key_hint(key)}, {size} bytes) was not written"
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return ConnectError(
                f"{what}: it is larger than the topic or broker allows (max.message.bytes of the topic, message.max.bytes of the "
                "broker); raise that, or producer.override.batch.size must be below it if the record itself is small"
            )
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART or error.code() == KafkaError._UNKNOWN_TOPIC:
            return ConnectError(
                f"{what}: the topic does not exist and the broker creates none. Create it, or set topic.creation.*"
            )
        if error.code() == KafkaError.INVALID_RECORD and key is None:
            return ConnectError(
                f"{what}: the broker finds it invalid; a compacted topic (cleanup.policy=compact) takes no records without key"
            )
        return kafka_error(error, what, self.bootstrap)

    def _refused(self, error: KafkaError, topic: str, key: bytes | None, value: bytes | None) -> ConnectError:
        if error.fatal() and self.fatal is None:
            self.fatal = error
        if error.code() == KafkaError._STATE:
            # A transaction that can only be aborted accepts no records: an earlier error is the reason.
            self.raise_error()
        if error.code() == KafkaError._FATAL:
            self._poll(0)  # which gets the reason
            self.raise_error()
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            size = len(key or b"") + len(value or b"")
            return RecordRejectedError(
                f"a record for topic {topic} ({_key_hint(key)}) has {size} bytes, which is more than max.request.size="
                f"{self._java.get('max.request.size', '1048576')}; raise producer.override.max.request.size (and "
                "max.message.bytes of the topic)"
            )
        found = self.delivery_error(error, topic, key, value)
        return RecordRejectedError(found.message) if is_about_the_record(error) else found


def _key_hint(key: Any) -> str:
    if key is None:
        return "no key"
    text = bytes(key[:40]).decode("utf-8", "backslashreplace") if isinstance(key, bytes) else str(key)[:40]
    return f"key {text}{'...' if len(key) > 40 else ''}"
