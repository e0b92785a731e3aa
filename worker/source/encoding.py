"""From source records to bytes, by the batch.

A batch of one topic and one pair of schema objects, which is what most sources give, is encoded in two calls. A mixed one is
encoded per topic and schema, and comes out in its own order again (promise 3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from connect.converters.api import Converter, HeaderConverter
from connect.data.headers import Header, Headers
from connect.data.schema import Schema
from connect.record import ConnectRecord
from connect.transforms.columnar.columns import ChangedRecords
from worker.errors.batch_failures import BatchFailures, salvage
from worker.errors.stages import Attempt, Stage, once, run_stage, whereabouts
from worker.kafka.record_producer import HeaderBytes, ProducerRun
from worker.tasks.converters import Converters


class EncodedRun(NamedTuple):
    """A run, and the place in the batch of each of its records."""

    run: ProducerRun
    places: Sequence[int]


def encode(converters: Converters, records: Sequence[ConnectRecord | None], failures: BatchFailures) -> list[EncodedRun]:
    """The records as runs, in order; those that are None are left out, and those that fail, which ``failures`` then knows."""
    places: Sequence[int] = range(len(records))
    given: Sequence[ConnectRecord] = records  # type: ignore[assignment]  # so it is, or is made the line below
    if None in records:
        places = [place for place, record in enumerate(records) if record is not None]
        given = [records[place] for place in places]  # type: ignore[misc]  # there is none that is None
    try:
        return _with_places(_encode(converters, given), places)
    except Exception:
        at = dict(zip(places, given, strict=True))

        def whole(part: Sequence[int]) -> list[EncodedRun]:
            return _with_places(_encode(converters, [at[place] for place in part]), part)

        def one(place: int) -> EncodedRun | None:
            return EncodedRun(encode_one(converters, at[place], failures.attempt), [place])

        return [run for run in salvage(places, whole, one, failures, None) if run is not None]


def _with_places(runs: list[ProducerRun], places: Sequence[int]) -> list[EncodedRun]:
    if len(runs) == 1:
        return [EncodedRun(runs[0], places)]
    result = []
    start = 0
    for run in runs:
        end = start + len(run.values)
        result.append(EncodedRun(run, places[start:end]))
        start = end
    return result


def encode_one(converters: Converters, record: ConnectRecord, attempt: Attempt = once) -> ProducerRun:
    """One record as a run. Raises StageError that names the converter and the record. Headers come first, as in Kafka Connect:
    converters of keys and values are given them as bytes, and may add some."""
    topic = record.topic

    def stage(stage: Stage, converter: Converter | HeaderConverter, operation: Callable[[], Any]) -> Any:
        return run_stage(stage, converter, lambda: whereabouts(record), attempt, operation)

    headers: HeaderBytes | None = stage(
        Stage.HEADER_CONVERTER, converters.header, lambda: _header_bytes(converters.header, record)
    )
    raw = Headers(Header(name, None, data) for name, data in headers or ()) if converters.want_headers else None
    key = stage(
        Stage.KEY_CONVERTER, converters.key, lambda: converters.key.from_connect_data(topic, record.key_schema, record.key, raw)
    )
    value = stage(
        Stage.VALUE_CONVERTER,
        converters.value,
        lambda: converters.value.from_connect_data(topic, record.value_schema, record.value, raw),
    )
    return _run([record], [key], [value], [headers if raw is None else _bytes_of(raw)])


def _encode(converters: Converters, records: Sequence[ConnectRecord]) -> list[ProducerRun]:
    """The records as runs, in order. Raises on the first bad one, with no effect."""
    if not records:
        return []
    if converters.want_headers:
        return _in_runs(records, *_columns_with_headers(converters, records))
    if isinstance(records, ChangedRecords):
        return _encode_changed(converters, records)
    first = records[0]
    topic, key_schema, value_schema = first.topic, first.key_schema, first.value_schema
    for record in records:
        if record.key_schema is not key_schema or record.value_schema is not value_schema or record.topic != topic:
            return _encode_mixed(converters, records)
    keys = _encoded(converters.key, topic, key_schema, [r.key for r in records])
    values = _encoded(converters.value, topic, value_schema, [r.value for r in records])
    return [_run(records, keys, values, _header_column(converters.header, records))]


def _encode_changed(converters: Converters, records: ChangedRecords) -> list[ProducerRun]:
    """The same for a batch that is in columns still: what is written straight from them need not become records first."""
    batch = records.batch
    topic, keys, values = batch.shared_topic(), batch.keys(), batch.values()
    if topic is None or keys is None or values is None or list(batch.headers).count(None) != len(records):
        return _encode(converters, list(records))
    written = _encoded(converters.key, topic, *keys), _encoded(converters.value, topic, *values)
    return [_run(batch.records, *written, None)._replace(topic=topic)]


def _encoded(converter: Converter, topic: str, schema: Schema | None, values: Sequence[Any]) -> list[bytes | None]:
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
    return _in_runs(records, keys, values, _header_column(converters.header, records))


def _columns_with_headers(
    converters: Converters, records: Sequence[ConnectRecord]
) -> tuple[list[bytes | None], list[bytes | None], list[HeaderBytes | None]]:
    runs = [encode_one(converters, record) for record in records]
    return (
        [run.keys[0] for run in runs],
        [run.values[0] for run in runs],
        [None if run.headers is None else run.headers[0] for run in runs],
    )


def _in_runs(
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
            runs.append(_run(records[part], keys[part], values[part], None if headers is None else headers[part]))
            start = i
    return runs


def _run(
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


def _header_column(converter: HeaderConverter, records: Sequence[ConnectRecord]) -> list[HeaderBytes | None] | None:
    headers = [r.headers for r in records]
    return None if headers.count(None) == len(headers) else [_header_bytes(converter, r) for r in records]


def _header_bytes(converter: HeaderConverter, record: ConnectRecord) -> HeaderBytes | None:
    if not record.headers:
        return None
    return [(h.key, converter.from_connect_header(record.topic, h.key, h.schema, h.value)) for h in record.headers]


def _bytes_of(headers: Headers) -> HeaderBytes | None:
    return [(h.key, h.value) for h in headers] or None
