"""From source records to bytes, by the batch.

A batch of one topic and one pair of schema objects, which is what most sources give, is encoded in two calls. A mixed one is
encoded per topic and schema, and comes out in its own order again (promise 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from connect.converters.api import Converter, HeaderConverter
from connect.data.headers import Headers
from connect.data.schema import Schema
from connect.record import ConnectRecord
from worker.stages import Stage, StageError, whereabouts

EncodedHeaders = list[tuple[str, bytes | None]]


class EncodedRun(NamedTuple):
    """Consecutive records of one topic, ready to be produced.

    ``plain`` says that no record of it has a partition, timestamp or headers of its own.
    """

    topic: str
    records: Sequence[ConnectRecord]
    keys: list[bytes | None]
    values: list[bytes | None]
    plain: bool


@dataclass(frozen=True, slots=True)
class Converters:
    """The converters of one task."""

    key: Converter
    value: Converter
    header: HeaderConverter

    def close(self) -> None:
        for converter in (self.key, self.value, self.header):
            converter.close()


def encode(converters: Converters, records: Sequence[ConnectRecord]) -> list[EncodedRun]:
    """The records as runs, in order. Raises on the first bad one, with no effect; :func:`encode_one` then finds it."""
    if not records:
        return []
    first = records[0]
    topic, key_schema, value_schema = first.topic, first.key_schema, first.value_schema
    uniform = plain = True
    for record in records:
        if record.key_schema is not key_schema or record.value_schema is not value_schema or record.topic != topic:
            uniform = False
            break
        if record.timestamp is not None or record.partition is not None or record.headers is not None:
            plain = False
    if uniform:
        keys = _encoded(converters.key, topic, key_schema, [r.key for r in records])
        values = _encoded(converters.value, topic, value_schema, [r.value for r in records])
        return [EncodedRun(topic, records, keys, values, plain)]
    return _encode_mixed(converters, records)


def _encoded(converter: Converter, topic: str, schema: Schema | None, values: list[Any]) -> list[bytes | None]:
    # Many sources have no keys: converting one None will do for all.
    if values[0] is None and values.count(None) == len(values):
        return converter.encode_batch(topic, schema, [None]) * len(values)
    return converter.encode_batch(topic, schema, values)


def _encode_mixed(converters: Converters, records: Sequence[ConnectRecord]) -> list[EncodedRun]:
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
            part = records[start:i]
            runs.append(EncodedRun(records[start].topic, part, keys[start:i], values[start:i], all(map(_is_plain, part))))
            start = i
    return runs


def _is_plain(record: ConnectRecord) -> bool:
    return record.timestamp is None and record.partition is None and record.headers is None


def encode_one(converters: Converters, record: ConnectRecord) -> EncodedRun:
    """One record as a run. Raises StageError that names the converter and the record."""
    try:
        key = converters.key.from_connect_data(record.topic, record.key_schema, record.key, record.headers)
    except Exception as e:
        raise StageError(Stage.KEY_CONVERTER, converters.key, whereabouts(record), e) from e
    try:
        value = converters.value.from_connect_data(record.topic, record.value_schema, record.value, record.headers)
    except Exception as e:
        raise StageError(Stage.VALUE_CONVERTER, converters.value, whereabouts(record), e) from e
    return EncodedRun(record.topic, [record], [key], [value], _is_plain(record))


def encode_headers(converter: HeaderConverter, record: ConnectRecord) -> EncodedHeaders | None:
    """The headers of a record as bytes, None when it has none. Raises StageError."""
    headers: Headers | None = record.headers
    if not headers:
        return None
    try:
        return [(h.key, converter.from_connect_header(record.topic, h.key, h.schema, h.value)) for h in headers]
    except Exception as e:
        raise StageError(Stage.HEADER_CONVERTER, converter, whereabouts(record), e) from e
