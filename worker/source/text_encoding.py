"""Encodes records that are still the texts of their source, without creating them, if the converters can."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any

from connect.converters.api import Converter
from connect.record import SourceRecord
from connect.text_records import (
    Frame,
    FramedWriter,
    MixedTextRecords,
    RecordTemplate,
    RowRun,
    StructTemplate,
    TemplateWriter,
    TextRecords,
    TextRows,
)
from worker.kafka.record_producer import HeaderBytes, ProducerRun
from worker.tasks.converters import Converters, Prefixes, PreparedTemplate, RecordColumns

log = logging.getLogger(__name__)

_CHUNK = 1000
"""Rows that are written at a time: few enough to fit the processor's caches."""
_MIN_COLUMN_ROWS = 100
"""Columns of fewer rows cost more than their bytes."""
_MAX_PREPARED = 10_000
"""Templates to remember; a table has up to five, and new ones with each change of its columns."""


def encode_texts(converters: Converters, records: TextRecords) -> ProducerRun | None:
    """Encodes records of one template; None if these converters write records only."""
    if converters.columns is not None:
        make = partial(converters.columns.of_records, records)
        if (run := _in_columns(converters, records, len(records), make)) is not None:
            return run
    writers = _writers(converters, records.key, records.value)
    if writers is None:
        return None
    write_key, write_value, prefixes = writers
    keys: list[bytes | None] = []
    values = _Values(write_value, _framed_writer(converters, records.value))
    size = len(records)
    try:
        for start in range(0, size, _CHUNK):
            rows = records.read(start, min(start + _CHUNK, size))
            values.add(rows)
            if write_key is not None:
                keys += write_key(rows)
        if write_key is None:
            keys = _null(converters.key, records.topic) * size
    except Exception as e:
        log.debug("Writing %d rows for %s from records: %r", size, records.topic, e)
        return None
    return ProducerRun(records.topic, keys, values.written, None, None, None, *prefixes, values.frame)


def _in_columns(
    converters: Converters, template: TextRecords | RecordTemplate, count: int, make: Callable[..., Any]
) -> ProducerRun | None:
    """A run whose keys and values are columns; None if they cannot be."""
    payloads = converters.value.payload_writer(template.value)
    keys = None if template.key is None else converters.key.payload_writer(template.key)
    if payloads is None or (keys is None) != (template.key is None):
        return None
    try:
        columns = make(writes_defaults=payloads.writes_defaults)
    except Exception as e:
        log.debug("Writing %d rows for %s without columns: %r", count, template.topic, e)
        return None
    nulls: list[bytes | None] = [None] * len(columns)
    prefixes = None if keys is None else keys.prefix, payloads.prefix
    return ProducerRun(template.topic, nulls, nulls, None, None, None, *prefixes, columns=columns)


class _Values:
    """The values of a run. They have a frame as long as all rows share their slots."""

    def __init__(self, write: TemplateWriter, framed: FramedWriter | None) -> None:
        self.written: list[bytes | None] = []
        self.frame: Frame | None = None
        self._write = write
        self._framed = framed

    def add(self, rows: TextRows) -> None:
        framed = self._framed
        frame = None if framed is None or rows.slots is None else framed.frame(rows.slots)
        if framed is None or frame is None or (self.written and frame != self.frame):
            self._complete()
            self.written += self._write(rows)
        else:
            self.frame = frame
            self.written += framed.write(rows)

    def _complete(self) -> None:
        """Puts the frame back around the values, which will have none."""
        if self.frame is not None:
            before, after = self.frame
            self.written = [None if value is None else before + value + after for value in self.written]
        self.frame = self._framed = None


def encode_mixed_texts(
    converters: Converters, records: MixedTextRecords, encode_records: Callable[[list[SourceRecord]], list[ProducerRun]]
) -> list[ProducerRun] | None:
    """Encodes records of several templates, in order; None if these converters write records only.

    Rows of one template are written together, wherever they are: a batch can change tables with each row.
    """
    if converters.columns is not None:
        return _encode_long_parts(converters, converters.columns, records, encode_records)
    parts_of: dict[RecordTemplate, list[RowRun]] = {}
    for part in records.parts:
        if not isinstance(part, list):
            parts_of.setdefault(part.template, []).append(part)
    columns: dict[RecordTemplate, _Columns] = {}
    for template, parts in parts_of.items():
        prepared = converters.prepared.get(template) or _prepare(converters, template)
        if prepared is None:
            return None
        try:
            columns[template] = _Columns(converters, template, parts, prepared)
        except Exception as e:
            log.debug("Writing %d records from %s on from records: %r", len(records), template.topic, e)
            return None
    runs: list[ProducerRun] = []
    texts: list[RowRun] = []
    for part in records.parts:
        if texts and (isinstance(part, list) or not _share_run(columns, part.template, texts[0].template)):
            runs.append(_run_of(texts, columns))
            texts = []
        if isinstance(part, list):
            runs += encode_records(part)
        else:
            texts.append(part)
    if texts:
        runs.append(_run_of(texts, columns))
    return runs


def _encode_long_parts(
    converters: Converters,
    columns: RecordColumns,
    records: MixedTextRecords,
    encode_records: Callable[[list[SourceRecord]], list[ProducerRun]],
) -> list[ProducerRun] | None:
    """Encodes parts with many records of one template as columns where possible, and those in between as bytes."""
    others = replace(converters, columns=None)
    runs: list[ProducerRun] = []
    between = MixedTextRecords(records.source_partition)
    for part in records.parts:
        run = None
        if not isinstance(part, list) and len(part.rows) >= _MIN_COLUMN_ROWS:
            run = _in_columns(converters, part.template, len(part.rows), partial(columns.of_rows, part.template, part.rows))
        if run is None:
            between.parts.append(part)
            continue
        for more in (encode_mixed_texts(others, between, encode_records), [run]):
            if more is None:
                return None
            runs += more
        between = MixedTextRecords(records.source_partition)
    rest = encode_mixed_texts(others, between, encode_records)
    return None if rest is None else [*runs, *rest]


def _share_run(columns: dict[RecordTemplate, _Columns], first: RecordTemplate, second: RecordTemplate) -> bool:
    """Whether records of two templates can be in one run."""
    return first.topic == second.topic and columns[first].prefixes == columns[second].prefixes


class _Columns:
    """Keys and values of all records of a template, in order."""

    def __init__(
        self, converters: Converters, template: RecordTemplate, parts: Sequence[RowRun], prepared: PreparedTemplate
    ) -> None:
        first, (write_key, write_value, self.prefixes, self.headers) = parts[0], prepared
        rows = first.rows if len(parts) == 1 else list(chain.from_iterable(part.rows for part in parts))
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        for start in range(0, len(rows), _CHUNK):
            texts = template.reader.text_rows(rows[start : start + _CHUNK])
            values += write_value(texts)
            if write_key is not None:
                keys += write_key(texts)
        if write_key is None:
            keys = _null(converters.key, template.topic) * len(rows)
        if template.records_per_row == 2:
            keys = [key for key in keys for _ in range(2)]
            (tombstone,) = _null(converters.value, template.topic)
            values = [value for found in values for value in (found, tombstone)]
        self._keys, self._values = keys, values
        self._following = iter(keys), iter(values)

    def take(self, size: int) -> tuple[list[bytes | None], list[bytes | None]]:
        """The next records."""
        if size == len(self._keys):
            return self._keys, self._values
        keys, values = self._following
        return list(islice(keys, size)), list(islice(values, size))


def _run_of(parts: Sequence[RowRun], columns: dict[RecordTemplate, _Columns]) -> ProducerRun:
    """The run of consecutive records of one topic."""
    if len(parts) == 1:
        ((template, rows),) = parts
        found = columns[template]
        taken, written = found.take(len(rows) * template.records_per_row)
        named: list[HeaderBytes | None] | None = None if found.headers is None else [found.headers] * len(taken)
        return ProducerRun(template.topic, taken, written, None, None, named, *found.prefixes)
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: list[HeaderBytes | None] = []
    for part in parts:
        found = columns[part.template]
        taken, written = found.take(len(part.rows) * part.template.records_per_row)
        keys += taken
        values += written
        headers += [found.headers] * len(taken)
    template = parts[0].template
    shown = headers if any(headers) else None
    return ProducerRun(template.topic, keys, values, None, None, shown, *columns[template].prefixes)


def _prepare(converters: Converters, template: RecordTemplate) -> PreparedTemplate | None:
    """Prepares a template, once; None if these converters write records only."""
    writers = _writers(converters, template.key, template.value)
    if writers is None:
        return None
    convert, topic = converters.header.from_connect_header, template.topic
    headers = [(h.key, convert(topic, h.key, h.schema, h.value)) for h in template.headers]
    known = converters.prepared
    if len(known) >= _MAX_PREPARED:
        known.clear()
    found = known[template] = PreparedTemplate(*writers, headers or None)
    return found


def _writers(
    converters: Converters, key: StructTemplate | None, value: StructTemplate
) -> tuple[TemplateWriter | None, TemplateWriter, Prefixes] | None:
    splits = converters.splits_schemas
    write_key, key_prefix = (None, None) if key is None else _writer(converters.key, key, splits=splits)
    write_value, value_prefix = _writer(converters.value, value, splits=splits)
    if write_value is None or (write_key is None) is not (key is None):
        return None
    return write_key, write_value, Prefixes(key_prefix, value_prefix)


def _framed_writer(converters: Converters, value: StructTemplate) -> FramedWriter | None:
    payloads = converters.value.payload_writer(value) if converters.splits_schemas else None
    return None if payloads is None else payloads.framed


def _writer(converter: Converter, template: StructTemplate, *, splits: bool) -> tuple[TemplateWriter | None, bytes | None]:
    payloads = converter.payload_writer(template) if splits else None
    if payloads is None:
        return converter.template_writer(template), None
    return payloads.write, payloads.prefix


def _null(converter: Converter, topic: str) -> list[bytes | None]:
    return converter.encode_batch(topic, None, [None])
