"""Resends source records that the broker rejected, if failures are tolerated: each once, alone. Then they are skipped.

The broker accepts or rejects a batch as a whole, and the client does not split it: a record may have been rejected because of
another one. Sent alone, it shows whether it is to blame. A resent record is written after those that followed it; the
alternative would be to lose it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from confluent_kafka import KafkaError, Message

from connect.record import SourceRecord
from worker.errors.handler import ErrorHandler
from worker.errors.stages import RecordStage, StageError
from worker.kafka.record_producer import DeliveryCallback, ProducerRun, RecordProducer, is_about_the_record

_TOPIC_ERRORS = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
"""Codes for which resending is useless: other records have no influence on them."""

OnDelivered = Callable[[Message | None], None]
"""Called when a record was written, or with None when it was skipped."""


@dataclass(frozen=True, slots=True)
class _Rejected:
    run: ProducerRun
    original: SourceRecord | None
    confirm: OnDelivered | None


class RejectedRecords:
    """The rejected records of one task. False if there are none. Used on the task's thread, as are the producer's callbacks."""

    def __init__(self, task: object, producer: RecordProducer, errors: ErrorHandler) -> None:
        self._task = task
        self._producer = producer
        self._errors = errors
        self._waiting: list[_Rejected] = []
        self._first_is_resent = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def track(
        self, run: ProducerRun, originals: Sequence[SourceRecord] | None, confirm: OnDelivered | None = None
    ) -> DeliveryCallback:
        """Returns the delivery callback for a run. ``originals`` are its unchanged records, if they have to be reported."""
        matched: dict[tuple[bytes, bytes], int] = {}

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                if confirm is not None:
                    confirm(message)
                return
            if self._producer.is_refused_batch(error, message):
                return
            content = message.key() or b"", message.value() or b""
            index = _find_record(run, content, matched.get(content, 0)) if is_about_the_record(error) else None
            if index is None:
                self._producer.record_error(error, message)
            else:
                matched[content] = index + 1
                rejected = _Rejected(run.slice(slice(index, index + 1)), None if originals is None else originals[index], confirm)
                if error.code() in _TOPIC_ERRORS:
                    self._skip_rejected(rejected, error, message)
                else:
                    self._waiting.append(rejected)

        return delivered

    def resend(self, timeout_s: float) -> bool:
        """Resends the waiting records, each alone. Returns False if the broker did not answer for one in time.

        No other record may be in flight: call it after ``RecordProducer.drain``.
        """
        while self._waiting:
            rejected = self._waiting[0]
            if not self._first_is_resent:
                self._producer.send_one(rejected.run, partial(self._delivered_alone, rejected))
                self._first_is_resent = True
            if not self._producer.drain(timeout_s):
                return False
            self._waiting.pop(0)
            self._first_is_resent = False
        return True

    def _delivered_alone(self, rejected: _Rejected, error: KafkaError | None, message: Message) -> None:
        if error is None:
            if rejected.confirm is not None:
                rejected.confirm(message)
        elif is_about_the_record(error):
            self._skip_rejected(rejected, error, message)
        else:
            self._producer.record_error(error, message)

    def _skip_rejected(self, rejected: _Rejected, error: KafkaError, message: Message) -> None:
        reason = self._producer.delivery_error(error, message.topic(), message.key(), message.value())
        self.skip(rejected.run.topic, reason, rejected.original, rejected.confirm)

    def skip(self, topic: str, reason: Exception, original: SourceRecord | None, confirm: OnDelivered | None = None) -> None:
        """Reports a record that will not be written, and confirms it if the task wants that."""
        location = f"topic {topic}"
        if original is not None:
            location += f", source partition {original.source_partition}, source offset {original.source_offset}"
        self._errors.handle_failure(StageError(RecordStage.KAFKA_PRODUCE, self._task, location, reason), original)
        if confirm is not None:
            # Promise 7: the source may forget a record once it is confirmed.
            self._errors.flush_or_stop()
            confirm(None)


def _find_record(run: ProducerRun, content: tuple[bytes, bytes], start: int) -> int | None:
    """Returns the index of the record with this key and value; of several the next one: they are reported in order."""
    pairs = enumerate(zip(run.keys[start:], run.values[start:], strict=True), start)
    return next((index for index, (key, value) in pairs if (key or b"", value or b"") == content), None)
