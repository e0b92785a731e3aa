"""Decodes consumed messages into sink records, or passes them on undecoded, batch by batch."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Message

from connect.converters.api import Converter
from connect.data.headers import Header, Headers
from connect.record import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP_TYPE,
    NULL,
    ConnectRecord,
    RawBatch,
    SchemaAndValue,
    SinkRecord,
    TopicPartition,
)
from worker.errors.batch_failures import BatchFailures, isolate_failures
from worker.errors.dead_letter import ConsumedRecord
from worker.errors.handler import ErrorHandler
from worker.errors.stages import RecordStage, run_stage
from worker.sink.batch import PutBatch
from worker.sink.header_decoding import decode_headers
from worker.sink.positions import SinkPositions
from worker.tasks.converters import Converters
from worker.tasks.transformation_chain import TransformationChain
from worker.tasks.worker_task import TaskHandle

_TIMESTAMP_TYPES = (NO_TIMESTAMP_TYPE, CREATE_TIME, LOG_APPEND_TIME)


class ConsumedSinkRecord(SinkRecord):
    """A sink record with the message it was decoded from, for tasks that can report errant records."""

    __slots__ = ("message",)

    message: Message

    @classmethod
    def from_record(cls, record: SinkRecord, message: Message) -> ConsumedSinkRecord:
        """Returns the same record with its message."""
        new = cls(
            record.topic,
            record.partition,
            record.key_schema,
            record.key,
            record.value_schema,
            record.value,
            record.offset,
            record.timestamp,
            record.timestamp_type,
            record.headers,
            record.original_topic,
            record.original_partition,
        )
        new.message = message
        return new


class MessageDecoder:
    """Decodes and transforms the messages of one task. Used on the task's thread only."""

    def __init__(
        self,
        handle: TaskHandle,
        converters: Converters,
        chain: TransformationChain,
        errors: ErrorHandler,
        positions: SinkPositions,
    ) -> None:
        self._handle = handle
        self._converters = converters
        self._chain = chain
        self._errors = errors
        self._positions = positions
        self._topics: set[str] = set()  # those that records were read from
        self.is_raw = False
        """Whether the task takes undecoded batches."""

    def decode(self, messages: Sequence[Message], *, same_assignment: bool) -> PutBatch:
        """Returns the records of the assigned partitions. Raises ToleranceExceededError.

        ``same_assignment`` says that no partition was assigned or revoked while the messages were collected.
        """
        positions = self._positions
        assigned, seeks = positions.assigned, positions.seeks
        only = next(iter(assigned)) if len(assigned) == 1 and same_assignment else None
        batch = PutBatch([], [], {})
        for partition, group in group_by_partition(messages, only).items():
            if partition not in assigned or partition in seeks:
                continue  # revoked, or about to be read from another offset
            positions.set_first(partition, group[0].offset() or 0)
            batch.ends[partition] = (group[-1].offset() or 0) + 1
            if self.is_raw:
                self.report_topic(partition.topic)
                raw = build_raw_batch(partition, group)
                batch.raw.append(raw)
                size = sum(map(len, filter(None, raw.values)))
            else:
                batch.records += self._decode_partition(partition, group)
                size = sum([len(m.value() or b"") for m in group])
            self._handle.count(len(group), size)
        return batch

    def _decode_partition(self, partition: TopicPartition, messages: Sequence[Message]) -> list[SinkRecord]:
        chain, errors = self._chain, self._errors
        failures = errors.start_batch()
        # Transformations copy plain records fastest; their results get their messages afterwards.
        record_class = ConsumedSinkRecord if errors.settings.reports and not chain else SinkRecord
        found: Sequence[ConnectRecord | None] = decode(self._converters, partition, messages, failures, record_class)
        if partition.topic not in self._topics and any(record is not None for record in found):
            self.report_topic(partition.topic)  # as in Apache, not before a record of it was converted
        if chain:
            found = chain.apply_batch(found, failures)
        for index, failure in failures:
            # If failures are not tolerated this raises and none of the batch is put; the next run reads it again.
            errors.handle_failure(failure, to_consumed_record(messages[index]))
        if errors.settings.reports and chain:
            pairs = zip(found, messages, strict=True)
            return [
                ConsumedSinkRecord.from_record(record, message) for record, message in pairs if isinstance(record, SinkRecord)
            ]
        return [record for record in found if isinstance(record, SinkRecord)]

    def report_topic(self, topic: str) -> None:
        """Reports that records of the topic were read, once."""
        if topic not in self._topics:
            self._topics.add(topic)
            self._handle.report_topics({topic})


def group_by_partition(messages: Sequence[Message], only: TopicPartition | None) -> dict[TopicPartition, Sequence[Message]]:
    """Groups messages by partition, in their order. ``only`` is the assigned partition if there is just one."""
    if only is not None:
        return {only: messages}
    groups: dict[tuple[str, int], list[Message]] = {}
    for message in messages:
        groups.setdefault((message.topic() or "", message.partition() or 0), []).append(message)
    return {TopicPartition(*key): group for key, group in groups.items()}


def build_raw_batch(partition: TopicPartition, messages: Sequence[Message]) -> RawBatch:
    """Returns the messages of one partition as columns."""
    headers = [m.headers() for m in messages]
    return RawBatch(
        partition.topic,
        partition.partition,
        [m.offset() or 0 for m in messages],
        [m.key() for m in messages],
        [m.value() for m in messages],
        [m.timestamp()[1] for m in messages],
        headers if any(headers) else None,
    )


def to_consumed_record(message: Message) -> ConsumedRecord:
    """Returns the message as it is stored in its topic."""
    kind, timestamp = message.timestamp()
    return ConsumedRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        timestamp if kind else None,
        _TIMESTAMP_TYPES[kind],
        message.key(),
        message.value(),
        message.headers() or [],
    )


def decode(
    converters: Converters,
    topic_partition: TopicPartition,
    messages: Sequence[Message],
    failures: BatchFailures,
    record_class: type[SinkRecord] = SinkRecord,
) -> list[SinkRecord | None]:
    """Decodes the messages of one partition. A message that fails becomes None and is added to ``failures``.

    ``record_class`` may be :class:`ConsumedSinkRecord`.
    """
    topic, partition = topic_partition
    keys = _decode_all(RecordStage.KEY_CONVERTER, converters.key, topic, messages, [m.key() for m in messages], failures)
    values = _decode_all(RecordStage.VALUE_CONVERTER, converters.value, topic, messages, [m.value() for m in messages], failures)
    records: list[SinkRecord] = []
    append = records.append
    for message, (key_schema, key), (value_schema, value) in zip(messages, keys, values, strict=True):
        kind, timestamp = message.timestamp()
        append(
            record_class(
                topic,
                partition,
                key_schema,
                key,
                value_schema,
                value,
                message.offset() or 0,
                timestamp if kind else None,
                _TIMESTAMP_TYPES[kind],
                None,
                topic,
                partition,
            )
        )
    if record_class is ConsumedSinkRecord:
        for record, message in zip(records, messages, strict=True):
            record.message = message  # type: ignore[attr-defined]  # a ConsumedSinkRecord
    decode_headers(converters.header, records, messages, failures)
    return [record if failures.is_good(i) else None for i, record in enumerate(records)] if failures else records  # type: ignore[return-value]


def _decode_all(
    stage: RecordStage,
    converter: Converter,
    topic: str,
    messages: Sequence[Message],
    datas: list[bytes | None],
    failures: BatchFailures,
) -> Sequence[SchemaAndValue]:
    """Converts the keys or the values; those that fail become null."""

    def decode_together(indexes: Sequence[int]) -> list[SchemaAndValue]:
        return _decode_column(converter, topic, [messages[i] for i in indexes], [datas[i] for i in indexes])

    def decode_one(index: int) -> SchemaAndValue:
        message = messages[index]
        return run_stage(
            stage, converter, lambda: _message_location(message), failures.attempt,
            lambda: converter.to_connect_data(topic, datas[index], _raw_headers(message)),
        )  # fmt: skip

    try:
        return _decode_column(converter, topic, messages, datas)
    except Exception:
        return isolate_failures(range(len(messages)), decode_together, decode_one, failures, NULL)


def _decode_column(
    converter: Converter, topic: str, messages: Sequence[Message], datas: list[bytes | None]
) -> list[SchemaAndValue]:
    if converter.wants_headers:
        convert = converter.to_connect_data
        return [convert(topic, data, _raw_headers(message)) for data, message in zip(datas, messages, strict=True)]
    if datas[0] is None and datas.count(None) == len(datas):
        # For topics without keys, decoding one None is enough.
        return converter.decode_batch(topic, [None]) * len(datas)
    return converter.decode_batch(topic, datas)


def _raw_headers(message: Message) -> Headers:
    return Headers(Header(name, None, data) for name, data in message.headers() or ())


def _message_location(message: Message) -> str:
    return f"topic {message.topic()}, partition {message.partition()}, offset {message.offset()}"
