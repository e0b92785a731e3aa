"""Encodes source records into bytes, batch by batch.

A batch with one topic and one pair of schema objects, which most sources return, is encoded in two calls. A mixed batch is
encoded per topic and schema; the result is in the order of the batch (promise 3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from connect.converters.api import Converter, HeaderConverter
from connect.data.headers import Header, Headers
from connect.data.schema import Schema
from connect.record import ConnectRecord
from connect.text_records import MixedTextRecords, TextRecords
from connect.transforms.columnar.columns import ChangedRecords
from worker.errors.batch_failures import BatchFailures, isolate_failures
from worker.errors.stages import Attempt, RecordStage, once, record_location, run_stage
from worker.kafka.record_producer import HeaderBytes, ProducerRun
from worker.source.text_encoding import encode_mixed_texts, encode_texts
from worker.tasks.converters import Converters


class EncodedRun(NamedTuple):
    """A run, and the index of each of its records in the batch."""

    run: ProducerRun
    indexes: Sequence[int]


def encode(converters: Converters, records: Sequence[ConnectRecord | None], failures: BatchFailures) -> list[EncodedRun]:
    """Encodes records into runs, in order. Skips records that are None, and adds those that fail to ``failures``."""
    indexes: Sequence[int] = range(len(records))
    present: Sequence[ConnectRecord] = records  # type: ignore[assignment]  # None is removed below
    if None in records:
        indexes = [index for index, record in enumerate(records) if record is not None]
        present = [records[index] for index in indexes]  # type: ignore[misc]  # no None among these
    try:
        return _add_indexes(_encode(converters, present), indexes)
    except Exception:
        at = dict(zip(indexes, present, strict=True))

        def encode_together(part: Sequence[int]) -> list[EncodedRun]:
            return _add_indexes(_encode(converters, [at[index] for index in part]), part)

        def encode_at(index: int) -> EncodedRun | None:
            return EncodedRun(encode_one(converters, at[index], failures.attempt), [index])

        return [run for run in isolate_failures(indexes, encode_together, encode_at, failures, None) if run is not None]


def _add_indexes(runs: list[ProducerRun], indexes: Sequence[int]) -> list[EncodedRun]:
    if len(runs) == 1:
        return [EncodedRun(runs[0], indexes)]
    result = []
    start = 0
    for run in runs:
        end = start + len(run.values)
        result.append(EncodedRun(run, indexes[start:end]))
        start = end
    return result


def encode_one(converters: Converters, record: ConnectRecord, attempt: Attempt = once) -> ProducerRun:
    """Encodes one record. Raises StageError, which names the converter and the record.

    Headers are converted first, as in Kafka Connect: converters of keys and values get them as bytes and may add some.
    """
    topic = record.topic

    def stage(stage: RecordStage, converter: Converter | HeaderConverter, operation: Callable[[], Any]) -> Any:
        return run_stage(stage, converter, lambda: record_location(record), attempt, operation)

    headers: HeaderBytes | None = stage(
        RecordStage.HEADER_CONVERTER, converters.header, lambda: _encode_headers(converters.header, record)
    )
    raw = Headers(Header(name, None, data) for name, data in headers or ()) if converters.want_headers else None
    key = stage(
        RecordStage.KEY_CONVERTER,
        converters.key,
        lambda: converters.key.from_connect_data(topic, record.key_schema, record.key, raw),
    )
    value = stage(
        RecordStage.VALUE_CONVERTER,
        converters.value,
        lambda: converters.value.from_connect_data(topic, record.value_schema, record.value, raw),
    )
    return _build_run([record], [key], [value], [headers if raw is None else _header_data(raw)])


def _encode(converters: Converters, records: Sequence[ConnectRecord]) -> list[ProducerRun]:
    """Encodes records into runs, in order. Raises the error of the first record that fails; nothing was sent then."""
    if not records:
        return []
    if converters.want_headers:
        return _split_into_runs(records, *_columns_with_headers(converters, records))
    if isinstance(records, ChangedRecords):
        return _encode_changed(converters, records)
    if isinstance(records, TextRecords):
        return [encode_texts(converters, records) or _encode_alike(converters, list(records))]
    if isinstance(records, MixedTextRecords):
        encoded = encode_mixed_texts(converters, records, partial(_encode, converters))
        return _encode(converters, list(records)) if encoded is None else encoded
    first = records[0]
    topic, key_schema, value_schema = first.topic, first.key_schema, first.value_schema
    for record in records:
        if record.key_schema is not key_schema or record.value_schema is not value_schema or record.topic != topic:
            return _encode_mixed(converters, records)
    return [_encode_alike(converters, records)]


def _encode_alike(converters: Converters, records: Sequence[ConnectRecord]) -> ProducerRun:
    """Encodes records that share topic and schemas."""
    first = records[0]
    keys = _encode_column(converters.key, first.topic, first.key_schema, [r.key for r in records])
    values = _encode_column(converters.value, first.topic, first.value_schema, [r.value for r in records])
    return _build_run(records, keys, values, _encode_header_column(converters.header, records))


def _encode_changed(converters: Converters, records: ChangedRecords) -> list[ProducerRun]:
    """Encodes a batch that is still in columns without creating its records."""
    batch = records.batch
    topic, keys, values = batch.shared_topic(), batch.keys(), batch.values()
    if topic is None or keys is None or values is None or list(batch.headers).count(None) != len(records):
        return _encode(converters, list(records))
    written = _encode_column(converters.key, topic, *keys), _encode_column(converters.value, topic, *values)
    return [_build_run(batch.records, *written, None)._replace(topic=topic)]


def _encode_column(converter: Converter, topic: str, schema: Schema | None, values: Sequence[Any]) -> list[bytes | None]:
    # Many sources have no keys: converting one None is enough.
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
    for (topic, _, _), indexes in groups.items():
        first = records[indexes[0]]
        group_keys = _encode_column(converters.key, topic, first.key_schema, [records[i].key for i in indexes])
        group_values = _encode_column(converters.value, topic, first.value_schema, [records[i].value for i in indexes])
        for i, key, value in zip(indexes, group_keys, group_values, strict=True):
            keys[i] = key
            values[i] = value
    return _split_into_runs(records, keys, values, _encode_header_column(converters.header, records))


def _columns_with_headers(
    converters: Converters, records: Sequence[ConnectRecord]
) -> tuple[list[bytes | None], list[bytes | None], list[HeaderBytes | None]]:
    runs = [encode_one(converters, record) for record in records]
    return (
        [run.keys[0] for run in runs],
        [run.values[0] for run in runs],
        [None if run.headers is None else run.headers[0] for run in runs],
    )


def _split_into_runs(
    records: Sequence[ConnectRecord],
    keys: list[bytes | None],
    values: list[bytes | None],
    headers: list[HeaderBytes | None] | None,
) -> list[ProducerRun]:
    runs = []
    start, size = 0, len(records)
    for i in range(1, size + 1):
        if i == size or records[i].topic != records[start].topic:
            part = slice(start, i)
            runs.append(_build_run(records[part], keys[part], values[part], None if headers is None else headers[part]))
            start = i
    return runs


def _build_run(
    records: Sequence[ConnectRecord],
    keys: list[bytes | None],
    values: list[bytes | None],
    headers: list[HeaderBytes | None] | None,
) -> ProducerRun:
    partitions = [r.partition for r in records]
    timestamps = [r.timestamp for r in records]
    size = len(records)
    return ProducerRun(
        records[0].topic,
        keys,
        values,
        None if partitions.count(None) == size else [-1 if p is None else p for p in partitions],
        None if timestamps.count(None) == size else [t or 0 for t in timestamps],
        None if headers is None or headers.count(None) == size else headers,
    )


def _encode_header_column(converter: HeaderConverter, records: Sequence[ConnectRecord]) -> list[HeaderBytes | None] | None:
    headers = [r.headers for r in records]
    if headers.count(None) == len(headers):
        return None
    shared: SharedHeaders = {}
    return [_encode_headers(converter, r, shared) for r in records]


SharedHeaders = dict[tuple[int, str], tuple[str, bytes | None]]
"""Encoded headers by identity and topic: records of a source often share header objects. Valid while the records exist."""


def _encode_headers(converter: HeaderConverter, record: ConnectRecord, shared: SharedHeaders | None = None) -> HeaderBytes | None:
    if not record.headers:
        return None
    topic = record.topic
    known = {} if shared is None else shared
    encoded: HeaderBytes = []
    for h in record.headers:
        pair = known.get((id(h), topic))
        if pair is None:
            pair = known[id(h), topic] = (h.key, converter.from_connect_header(topic, h.key, h.schema, h.value))
        encoded.append(pair)
    return encoded


def _header_data(headers: Headers) -> HeaderBytes | None:
    return [(h.key, h.value) for h in headers] or None
