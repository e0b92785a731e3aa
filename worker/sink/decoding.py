"""From consumed messages to sink records, or to columns, by the batch."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Message

from connect.converters.api import Converter
from connect.data.headers import Header, Headers
from connect.errors import DataError
from connect.record import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP_TYPE,
    NULL,
    RawBatch,
    SchemaAndValue,
    SinkRecord,
    TopicPartition,
)
from worker.errors.batch_failures import BatchFailures, salvage
from worker.errors.dead_letter import ConsumedRecord
from worker.errors.stages import Stage, StageError, run_stage
from worker.tasks.converters import Converters

_TIMESTAMP_TYPES = (NO_TIMESTAMP_TYPE, CREATE_TIME, LOG_APPEND_TIME)


class ConsumedSinkRecord(SinkRecord):
    """A sink record that knows the message it came from, for a task that may report it."""

    __slots__ = ("message",)

    message: Message

    @classmethod
    def of(cls, record: SinkRecord, message: Message) -> ConsumedSinkRecord:
        """The same record, with its message."""
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


def group_by_partition(messages: Sequence[Message], only: TopicPartition | None) -> dict[TopicPartition, Sequence[Message]]:
    """The messages per partition, each in its order. ``only`` is the one assigned partition, when there is just one."""
    if only is not None:
        return {only: messages}
    groups: dict[tuple[str, int], list[Message]] = {}
    for message in messages:
        groups.setdefault((message.topic() or "", message.partition() or 0), []).append(message)
    return {TopicPartition(*place): group for place, group in groups.items()}


def raw_batch(place: TopicPartition, messages: Sequence[Message]) -> RawBatch:
    """Columns of one partition's messages."""
    headers = [m.headers() for m in messages]
    return RawBatch(
        place.topic,
        place.partition,
        [m.offset() or 0 for m in messages],
        [m.key() for m in messages],
        [m.value() for m in messages],
        [m.timestamp()[1] for m in messages],
        headers if any(headers) else None,
    )


def consumed(message: Message) -> ConsumedRecord:
    """The message as it lay in its topic."""
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
    place: TopicPartition,
    messages: Sequence[Message],
    failures: BatchFailures,
    make: type[SinkRecord] = SinkRecord,
) -> list[SinkRecord | None]:
    """The records of one partition's messages; None for those that fail, which ``failures`` then knows. ``make`` may be
    :class:`ConsumedSinkRecord`."""
    topic, partition = place
    keys = _column(Stage.KEY_CONVERTER, converters.key, topic, messages, [m.key() for m in messages], failures)
    values = _column(Stage.VALUE_CONVERTER, converters.value, topic, messages, [m.value() for m in messages], failures)
    records: list[SinkRecord] = []
    append = records.append
    for message, (key_schema, key), (value_schema, value) in zip(messages, keys, values, strict=True):
        kind, timestamp = message.timestamp()
        append(
            make(
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
    if make is ConsumedSinkRecord:
        for record, message in zip(records, messages, strict=True):
            record.message = message  # type: ignore[attr-defined]  # it is one of those
    for i, (record, message) in enumerate(zip(records, messages, strict=True)):
        if (headers := message.headers()) and failures.good(i):
            try:
                record.headers = _headers(converters, record, headers, failures)
            except StageError as e:
                failures.add(i, e)
    return [record if failures.good(i) else None for i, record in enumerate(records)] if failures else records  # type: ignore[return-value]


def _column(
    stage: Stage,
    converter: Converter,
    topic: str,
    messages: Sequence[Message],
    datas: list[bytes | None],
    failures: BatchFailures,
) -> Sequence[SchemaAndValue]:
    """The keys or the values, converted; those that fail are null."""

    def whole(places: Sequence[int]) -> list[SchemaAndValue]:
        return _decoded(converter, topic, [messages[i] for i in places], [datas[i] for i in places])

    def one(place: int) -> SchemaAndValue:
        message = messages[place]
        return run_stage(
            stage, converter, lambda: _where(message), failures.attempt,
            lambda: converter.to_connect_data(topic, datas[place], _raw_headers(message)),
        )  # fmt: skip

    try:
        return _decoded(converter, topic, messages, datas)
    except Exception:
        return salvage(range(len(messages)), whole, one, failures, NULL)


def _decoded(converter: Converter, topic: str, messages: Sequence[Message], datas: list[bytes | None]) -> list[SchemaAndValue]:
    if converter.wants_headers:
        convert = converter.to_connect_data
        return [convert(topic, data, _raw_headers(message)) for data, message in zip(datas, messages, strict=True)]
    if datas[0] is None and datas.count(None) == len(datas):
        # Topics without keys: one None decoded stands for all.
        return converter.decode_batch(topic, [None]) * len(datas)
    return converter.decode_batch(topic, datas)


def _raw_headers(message: Message) -> Headers:
    return Headers(Header(name, None, data) for name, data in message.headers() or ())


def _where(message: Message) -> str:
    return f"topic {message.topic()}, partition {message.partition()}, offset {message.offset()}"


def _headers(
    converters: Converters, record: SinkRecord, raw: Sequence[tuple[str, bytes | None]], failures: BatchFailures
) -> Headers:
    converter = converters.header

    def convert() -> Headers:
        headers = Headers()
        for name, data in raw:
            try:
                schema, value = converter.to_connect_header(record.topic, name, data)
            except DataError as e:
                e.in_field(name)
                raise
            headers.add(name, value, schema)
        return headers

    def where() -> str:
        return f"topic {record.topic}, partition {record.partition}, offset {record.offset}"

    return run_stage(Stage.HEADER_CONVERTER, converter, where, failures.attempt, convert)
