"""Records of a source that the broker refused, where failures are tolerated: each is sent once more alone, and then given up.

The broker takes or refuses a batch as a whole, and the client does not split it: a record may have been refused for its
neighbour. Alone it shows whether it is to blame. What is sent again comes after what was sent behind it; the other choice would
be to lose it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from confluent_kafka import KafkaError, Message

from connect.record import SourceRecord
from worker.errors.handler import ErrorHandler
from worker.errors.stages import Stage, StageError
from worker.kafka.record_producer import DeliveryCallback, ProducerRun, RecordProducer, is_about_the_record

_ABOUT_THE_TOPIC = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
"""Codes that need no second try: neighbours have no part in them."""

Confirm = Callable[[Message | None], None]
"""Hears that a record was written, or (None) that it was skipped."""


@dataclass(frozen=True, slots=True)
class _Refused:
    run: ProducerRun
    original: SourceRecord | None
    confirm: Confirm | None


class RefusedRecords:
    """Those of one task. False while there are none. Used on the task's thread, where the producer's callbacks run too."""

    def __init__(self, task: object, producer: RecordProducer, errors: ErrorHandler) -> None:
        self._task = task
        self._producer = producer
        self._errors = errors
        self._waiting: list[_Refused] = []
        self._first_is_sent = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def watch(
        self, run: ProducerRun, originals: Sequence[SourceRecord] | None, confirm: Confirm | None = None
    ) -> DeliveryCallback:
        """What is to hear of deliveries of this run. ``originals`` are its records as the source gave them, where they are to be
        reported."""
        matched: dict[tuple[bytes, bytes], int] = {}

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                if confirm is not None:
                    confirm(message)
                return
            content = message.key() or b"", message.value() or b""
            place = _place(run, content, matched.get(content, 0)) if is_about_the_record(error) else None
            if place is None:
                self._producer.remember(error, message)
            else:
                matched[content] = place + 1
                refused = _Refused(_alone(run, place), None if originals is None else originals[place], confirm)
                if error.code() in _ABOUT_THE_TOPIC:
                    self._give_up(refused, error, message)
                else:
                    self._waiting.append(refused)

        return delivered

    def send_again(self, timeout_s: float) -> bool:
        """Sends what waits, each record alone. False when the broker did not answer for one in time: those left wait on.

        Nothing else may be on its way: call after ``RecordProducer.drain``.
        """
        while self._waiting:
            refused = self._waiting[0]
            if not self._first_is_sent:
                self._producer.send_one(refused.run, partial(self._delivered_alone, refused))
                self._first_is_sent = True
            if not self._producer.drain(timeout_s):
                return False
            self._waiting.pop(0)
            self._first_is_sent = False
        return True

    def _delivered_alone(self, refused: _Refused, error: KafkaError | None, message: Message) -> None:
        if error is None:
            if refused.confirm is not None:
                refused.confirm(message)
        elif is_about_the_record(error):
            self._give_up(refused, error, message)
        else:
            self._producer.remember(error, message)

    def _give_up(self, refused: _Refused, error: KafkaError, message: Message) -> None:
        reason = self._producer.delivery_error(error, message.topic(), message.key(), message.value())
        self.skip(refused.run.topic, reason, refused.original, refused.confirm)

    def skip(self, topic: str, reason: Exception, original: SourceRecord | None, confirm: Confirm | None = None) -> None:
        """Reports a record that is not written, and says so where it is to be confirmed."""
        where = f"topic {topic}"
        if original is not None:
            where += f", source partition {original.source_partition}, source offset {original.source_offset}"
        self._errors.failed(StageError(Stage.KAFKA_PRODUCE, self._task, where, reason), original)
        if confirm is not None:
            self._errors.settle_now()  # once confirmed, the source may forget it
            confirm(None)


def _place(run: ProducerRun, content: tuple[bytes, bytes], start: int) -> int | None:
    """The record of the run that has this key and value; of several the next, for they are told of in their order."""
    pairs = enumerate(zip(run.keys[start:], run.values[start:], strict=True), start)
    return next((place for place, (key, value) in pairs if (key or b"", value or b"") == content), None)


def _alone(run: ProducerRun, place: int) -> ProducerRun:
    columns = [None if column is None else column[place : place + 1] for column in run[1:]]
    return ProducerRun(run.topic, *columns)  # type: ignore[arg-type]  # columns keep their kinds
