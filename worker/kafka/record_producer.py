"""A producer for one source task: order kept, errors remembered, acknowledgements counted by the batch.

Successful deliveries cost no Python call: ``delivery.report.only.error`` makes the client call back for failures alone (seen in
confluent-kafka 2.16: the reports of successes are served and freed in C), and what is not yet acknowledged is the length of the
producer. Measured per million records of 100 bytes: 0.9 CPU seconds, against 1.5 with a callback each.
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
from worker.kafka.clients import UNAUTHORIZED, UNREACHABLE, BrokerNotices, kafka_error, make_producer
from worker.kafka.idempotence import CLIENT_ENDED, PURGED, find_client_error, is_idempotence_denied

_SLICE_S = 0.1
"""How long a wait goes on before it looks whether it is still wanted."""

HeaderBytes = list[tuple[str, bytes | None]]
DeliveryCallback = Callable[[KafkaError | None, Message], None]

_NOT_ABOUT_THE_RECORD = UNREACHABLE | UNAUTHORIZED | CLIENT_ENDED | {KafkaError._MSG_TIMED_OUT, KafkaError._STATE}
"""Codes that another record would meet too."""


class ProducerRun(NamedTuple):
    """Consecutive records of one topic as columns; a column that is None is left to the producer for every record."""

    topic: str
    keys: list[bytes | None]
    values: list[bytes | None]
    partitions: list[int] | None = None
    """-1 leaves a record's partition to the producer."""
    timestamps: list[int] | None = None
    """0 is now."""
    headers: list[HeaderBytes | None] | None = None

    def after(self, count: int) -> ProducerRun:
        """The run without so many records at its beginning."""
        if not count:
            return self
        rest = [None if column is None else column[count:] for column in self[1:]]
        return ProducerRun(self.topic, *rest)  # type: ignore[arg-type]  # columns keep their kinds


def is_about_the_record(error: KafkaError) -> bool:
    """Whether it is this record that is not taken, so that it may be skipped where failures are tolerated."""
    return not error.fatal() and not error.retriable() and error.code() not in _NOT_ABOUT_THE_RECORD


class RecordMetadata(NamedTuple):
    """Where an acknowledged record came to lie (``commit_record``)."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None


class RecordRejectedError(ConnectError):
    """The client or the broker does not take this record, and never will; others may pass."""


class ProducerLostError(ConnectError):
    """The client numbers its batches and cannot go on, by no record's fault. Another one can, from what was acknowledged."""

    def __init__(self, message: str, *, idempotence_denied: bool = False) -> None:
        """``refused``: the broker gives out no numbers, to nobody or not to this principal. Nothing was written then."""
        super().__init__(message)
        self.idempotence_denied = idempotence_denied


def unrecoverable(error: ConnectError) -> ConnectError:
    """The error of a record that is to fail its task: it begins with the words of Apache's workers, for scripts."""
    return type(error)(f"Unrecoverable exception from producer send callback: {error.message}")


class ProduceCancelled(Exception):
    """Sending was given up because the task is to end. Not an error."""


class RecordProducer:
    """Used by its task's thread only, except :meth:`cancel`."""

    def __init__(
        self,
        java: Mapping[str, str],
        *,
        stopping: Callable[[], bool],
        confirms_each: bool = False,
        replaceable: bool = False,
    ) -> None:
        """``stopping`` is asked while the broker takes nothing more: True gives up (ProduceCancelled). With ``confirms_each``
        every record is sent by :meth:`send_one`, whose callbacks hear of success too. A ``replaceable`` one says when it is the
        client that has ended, and no record that was refused (ProducerLostError)."""
        self.bootstrap = java["bootstrap.servers"]
        self._stopping = stopping
        self._replaceable = replaceable
        self._max_bytes = java.get("max.request.size", "1048576")
        self._buffer_bytes = java.get("buffer.memory", "33554432")
        self._error: ConnectError | None = None
        self._cancelled = False
        self._discarding = False
        self.fatal: KafkaError | None = None
        """What has ended the client for good: a transactional producer was fenced."""
        self.failed_by: KafkaError | None = None
        """The client's own error behind the first one that :meth:`raise_error` raises."""
        self.sent = 0
        self.unavailable_at = 0.0
        """``time.monotonic()`` when a broker was seen last to be away."""
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
        """The client itself, for :mod:`worker.kafka.transactions`."""
        return self._producer

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def __len__(self) -> int:
        """Records that are not acknowledged yet."""
        return len(self._producer)

    def send_run(self, run: ProducerRun, on_delivery: DeliveryCallback | None = None) -> None:
        """Sends records of one topic, in order. ``on_delivery`` hears of failures in the place of :meth:`record_error`.

        Raises RecordRejectedError for a record that can never be sent, ProduceCancelled when it gave up; ``sent`` then says how
        many of these were handed to the client before.
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
                    strict=False,  # what repeats has no end
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
        """Sends a run of one record; ``on_delivery`` is called for success too, while :meth:`serve` or a wait runs."""
        if self._cancelled:
            raise ProduceCancelled
        value, key = run.values[0], run.keys[0]
        rest = (
            run.partitions[0] if run.partitions else -1,
            # Of the two places for a callback the client takes the first, even if None is given there.
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
        """Goes on trying while the queue is full: the broker is slow or away. What the queue holds is all the memory that this
        costs."""
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
                        f"buffer.memory={self._buffer_bytes}; raise producer.override.buffer.memory"
                    ) from e
                error = e
            else:
                return
        raise self._refused(error.args[0], topic, key, value) from error

    def serve(self) -> None:
        """Takes in reports. Raises the error of a record that failed since the last look."""
        self._poll(0)
        self.raise_error()

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
        # The client's callbacks are not told of a fatal error: it is raised by whatever was called when it came up.
        if self.fatal is None and error.fatal():
            self.fatal = error
        if self._error is None:
            self._error, self.failed_by = kafka_error(error, "talking to Kafka", self.bootstrap), error

    def drain(self, timeout_s: float) -> bool:
        """Waits until every record is acknowledged; False when the time was too short.

        Raises ConnectError when a record failed: then not all up to here is in Kafka.
        """
        deadline = time.monotonic() + timeout_s
        while self._flush(max(0.0, min(_SLICE_S, deadline - time.monotonic()))):
            self.raise_error()
            if self._cancelled or time.monotonic() >= deadline:
                return False
        self.raise_error()
        return True

    def raise_error(self) -> None:
        """Raises the first delivery error, every time."""
        if self._replaceable and not self._cancelled and (lost := self._lost()) is not None:
            raise lost
        if self._error is not None:
            raise self._error.with_traceback(None)

    def _lost(self) -> ProducerLostError | None:
        error = self.fatal
        if error is None and self.failed_by is not None and self.failed_by.code() in CLIENT_ENDED:
            error = self.failed_by
        if error is None:
            return None
        message = kafka_error(error, "writing records", self.bootstrap).message
        return ProducerLostError(message, idempotence_denied=is_idempotence_denied(error))

    def cancel(self) -> None:
        """From another thread: throws away what is queued and lets nothing more through. Does not wait."""
        self._cancelled = True
        if (client := self._producer) is not None:
            client.purge(in_queue=True, in_flight=True, blocking=False)

    def close(self) -> None:
        """Ends the client without waiting for what is not acknowledged."""
        self._cancelled = True
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        # The purged records are reported as failed; nobody is to hear of them.
        self._error = self._error or ConnectError("closed")
        if self._transactional:
            # The client's close() goes on with an open transaction first, for a minute where no broker answers. What is open has
            # been given up by now; a client that is let go ends at once.
            self._producer = None
        else:
            self._flush(1.0)
            self._producer.close()

    @contextmanager
    def discarding(self) -> Iterator[None]:
        """For a transaction that is aborted: what becomes of its records is nobody's failure, also if some had failed before."""
        self._discarding = True
        try:
            yield
            if self.fatal is None:
                self._error = self.failed_by = None
        finally:
            self._discarding = False

    def record_error(self, error: KafkaError, message: Message) -> None:
        """A record failed, as a callback of :meth:`send_one` or the client's own heard; the first such error is kept.

        In a transaction the failure of one record takes others with it, of which may be told sooner: what is about a record goes
        before what is not.
        """
        if error.fatal() and self.fatal is None:
            self.fatal = error
        if self._discarding and error.code() in PURGED:
            return
        known = self.failed_by
        says_more = self._transactional and known is not None and is_about_the_record(error) and not is_about_the_record(known)
        if self._error is None or says_more:
            self._error = unrecoverable(self.delivery_error(error, message.topic(), message.key(), message.value()))
            self.failed_by = error

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
        """What to tell about a record that the broker did not take."""
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
            # A transaction that can only be aborted takes no more: what came before is the reason.
            self.raise_error()
        if error.code() == KafkaError._FATAL:
            self._poll(0)  # which is told why
            self.raise_error()
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            size = len(key or b"") + len(value or b"")
            return RecordRejectedError(
                f"a record for topic {topic} ({_key_hint(key)}) has {size} bytes, which is more than max.request.size="
                f"{self._max_bytes}; raise producer.override.max.request.size (and max.message.bytes of the topic)"
            )
        found = self.delivery_error(error, topic, key, value)
        return RecordRejectedError(found.message) if is_about_the_record(error) else found


def _key_hint(key: Any) -> str:
    if key is None:
        return "no key"
    text = bytes(key[:40]).decode("utf-8", "backslashreplace") if isinstance(key, bytes) else str(key)[:40]
    return f"key {text}{'...' if len(key) > 40 else ''}"
