"""From source records to bytes, by the batch.

A batch of one topic and one pair of schema objects, which is what most sources give, is encoded in two calls. A mixed one is
encoded per topic and schema, and comes out in its own order again (promise 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from connect.converters.api import Converter, HeaderConverter
from connect.data.schema import Schema
from connect.record import ConnectRecord
from worker.kafka.record_producer import HeaderBytes, ProducerRun
from worker.stages import Stage, StageError, whereabouts


@dataclass(frozen=True, slots=True)
class Converters:
    """The converters of one task."""

    key: Converter
    value: Converter
    header: HeaderConverter

    def close(self) -> None:
        for converter in (self.key, self.value, self.header):
            converter.close()


def encode(converters: Converters, records: Sequence[ConnectRecord]) -> list[ProducerRun]:
    """The records as runs, in order. Raises on the first bad one, with no effect; :func:`encode_one` then finds it."""
    if not records:
        return []
    first = records[0]
    topic, key_schema, value_schema = first.topic, first.key_schema, first.value_schema
    for record in records:
        if record.key_schema is not key_schema or record.value_schema is not value_schema or record.topic != topic:
            return _encode_mixed(converters, records)
    keys = _encoded(converters.key, topic, key_schema, [r.key for r in records])
    values = _encoded(converters.value, topic, value_schema, [r.value for r in records])
    return [_run(converters, records, keys, values)]


def encode_one(converters: Converters, record: ConnectRecord) -> ProducerRun:
    """One record as a run. Raises StageError that names the converter and the record."""
    try:
        key = converters.key.from_connect_data(record.topic, record.key_schema, record.key, record.headers)
    except Exception as e:
        raise StageError(Stage.KEY_CONVERTER, converters.key, whereabouts(record), e) from e
    try:
        value = converters.value.from_connect_data(record.topic, record.value_schema, record.value, record.headers)
    except Exception as e:
        raise StageError(Stage.VALUE_CONVERTER, converters.value, whereabouts(record), e) from e
    return _run(converters, [record], [key], [value])


def _encoded(converter: Converter, topic: str, schema: Schema | None, values: list[Any]) -> list[bytes | None]:
    # Many sources have no keys: converting one None will do for all.
    if values[0] is None and values.count(None) == len(values):
        return converter.encode_batch(topic, schema, [None]) * len(values)
    return converter.encode_batch(topic, schema, values)


def _encode_mixed(converters: Converters, records: Sequence[ConnectRecord]) -> list[ProducerRun]:
    size = len(records)
    keys: list[bytes | None] = [None] * size
    values: list[bytes | None] = [None] * size
    groups: dict[tuple[str, int, int], list[int]] = {}
    for i, record in enumerate(records):
        groups.setdefault((record.topic, id(record.key_schema), id(record.value_schema)), []).append(i)
    for (topic, _, _), places in groups.items():
        first = records[places[0]]
        group_keys = _encoded(converters.key, topic, first.key_schema, [records[i].key for i in places])
        group_values = _encoded(converters.value, topic, first.value_schema, [records[i].value for i in places])
        for i, key, value in zip(places, group_keys, group_values, strict=True):
            keys[i] = key
            values[i] = value
    runs = []
    start = 0
    for i in range(1, size + 1):
        if i == size or records[i].topic != records[start].topic:
            runs.append(_run(converters, records[start:i], keys[start:i], values[start:i]))
            start = i
    return runs


def _run(
    converters: Converters, records: Sequence[ConnectRecord], keys: list[bytes | None], values: list[bytes | None]
) -> ProducerRun:
    partitions = [r.partition for r in records]
    timestamps = [r.timestamp for r in records]
    headers = [r.headers for r in records]
    size = len(records)
    return ProducerRun(
        records[0].topic,
        keys,
        values,
        None if partitions.count(None) == size else [-1 if p is None else p for p in partitions],
        None if timestamps.count(None) == size else [t or 0 for t in timestamps],
        None if headers.count(None) == size else [_headers(converters.header, r) for r in records],
    )


def _headers(converter: HeaderConverter, record: ConnectRecord) -> HeaderBytes | None:
    if not record.headers:
        return None
    try:
        return [(h.key, converter.from_connect_header(record.topic, h.key, h.schema, h.value)) for h in record.headers]
    except Exception as e:
        raise StageError(Stage.HEADER_CONVERTER, converter, whereabouts(record), e) from e
