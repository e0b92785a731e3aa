"""From consumed messages to sink records, or to columns, by the batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from confluent_kafka import Message

from connect.data.headers import Header, Headers
from connect.record import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE, RawBatch, SchemaAndValue, SinkRecord, TopicPartition
from worker.source_batches import Converters
from worker.stages import Stage, StageError

_TIMESTAMP_TYPES = (NO_TIMESTAMP_TYPE, CREATE_TIME, LOG_APPEND_TIME)


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


def decode(converters: Converters, place: TopicPartition, messages: Sequence[Message]) -> list[SinkRecord]:
    """The records of one partition's messages. Raises on the first bad one; :func:`decode_one` then finds it."""
    topic, partition = place
    keys = _decoded(converters.key.decode_batch, topic, [m.key() for m in messages])
    values = _decoded(converters.value.decode_batch, topic, [m.value() for m in messages])
    records: list[SinkRecord] = []
    append = records.append
    for message, (key_schema, key), (value_schema, value) in zip(messages, keys, values, strict=True):
        kind, timestamp = message.timestamp()
        append(
            SinkRecord(
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
    for record, message in zip(records, messages, strict=True):
        if headers := message.headers():
            record.headers = _headers(converters, record, headers)
    return records


def _decoded(decode_batch: object, topic: str, datas: list[bytes | None]) -> list[SchemaAndValue]:
    assert callable(decode_batch)
    if datas[0] is None and datas.count(None) == len(datas):
        # Topics without keys: one None decoded stands for all.
        one: list[SchemaAndValue] = decode_batch(topic, [None])
        return one * len(datas)
    many: list[SchemaAndValue] = decode_batch(topic, datas)
    return many


def decode_one(converters: Converters, place: TopicPartition, message: Message) -> SinkRecord:
    """One record. Raises StageError that names converter, topic, partition and offset."""
    where = f"topic {place.topic}, partition {place.partition}, offset {message.offset()}"
    raw_headers = message.headers()
    headers = Headers(Header(name, None, data) for name, data in raw_headers) if raw_headers else None
    try:
        key_schema, key = converters.key.to_connect_data(place.topic, message.key(), headers)
    except Exception as e:
        raise StageError(Stage.KEY_CONVERTER, converters.key, where, e) from e
    try:
        value_schema, value = converters.value.to_connect_data(place.topic, message.value(), headers)
    except Exception as e:
        raise StageError(Stage.VALUE_CONVERTER, converters.value, where, e) from e
    kind, timestamp = message.timestamp()
    record = SinkRecord(
        place.topic, place.partition, key_schema, key, value_schema, value, message.offset() or 0,
        timestamp if kind else None, _TIMESTAMP_TYPES[kind],
    )  # fmt: skip
    if raw_headers:
        record.headers = _headers(converters, record, raw_headers)
    return record


def _headers(converters: Converters, record: SinkRecord, raw: Iterable[tuple[str, bytes | None]]) -> Headers:
    where = f"topic {record.topic}, partition {record.partition}, offset {record.offset}"
    headers = Headers()
    for name, data in raw:
        try:
            schema, value = converters.header.to_connect_header(record.topic, name, data)
        except Exception as e:
            raise StageError(Stage.HEADER_CONVERTER, converters.header, where, e) from e
        headers.add(name, value, schema)
    return headers
