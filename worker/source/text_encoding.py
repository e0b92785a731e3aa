"""Encodes records that are still the texts of their source, without creating them, if the converters can."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import chain, islice

from connect.converters.api import Converter
from connect.record import SourceRecord
from connect.text_records import MixedTextRecords, RecordTemplate, RowRun, StructTemplate, TemplateWriter, TextRecords
from worker.kafka.record_producer import HeaderBytes, ProducerRun
from worker.tasks.converters import Converters, PreparedTemplate

log = logging.getLogger(__name__)

_CHUNK = 1000
"""Rows that are written at a time: few enough to fit the processor's caches."""
_MAX_PREPARED = 10_000
"""Templates to remember; a table has up to five, and new ones with each change of its columns."""


def encode_texts(converters: Converters, records: TextRecords) -> ProducerRun | None:
    """Encodes records of one template; None if these converters write records only."""
    writers = _writers(converters, records.key, records.value)
    if writers is None:
        return None
    write_key, write_value = writers
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    size = len(records)
    try:
        for start in range(0, size, _CHUNK):
            rows = records.read(start, min(start + _CHUNK, size))
            values += write_value(rows)
            if write_key is not None:
                keys += write_key(rows)
        if write_key is None:
            keys = _null(converters.key, records.topic) * size
    except Exception as e:
        log.debug("Writing %d rows for %s from records: %r", size, records.topic, e)
        return None
    return ProducerRun(records.topic, keys, values)


def encode_mixed_texts(
    converters: Converters, records: MixedTextRecords, encode_records: Callable[[list[SourceRecord]], list[ProducerRun]]
) -> list[ProducerRun] | None:
    """Encodes records of several templates, in order; None if these converters write records only.

    Rows of one template are written together, wherever they are: a batch can change tables with each row.
    """
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
        if texts and (isinstance(part, list) or part.template.topic != texts[0].template.topic):
            runs.append(_run_of(texts, columns))
            texts = []
        if isinstance(part, list):
            runs += encode_records(part)
        else:
            texts.append(part)
    if texts:
        runs.append(_run_of(texts, columns))
    return runs


class _Columns:
    """Keys and values of all records of a template, in order."""

    def __init__(
        self, converters: Converters, template: RecordTemplate, parts: Sequence[RowRun], prepared: PreparedTemplate
    ) -> None:
        first, (write_key, write_value, self.headers) = parts[0], prepared
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
        return ProducerRun(template.topic, taken, written, None, None, named)
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: list[HeaderBytes | None] = []
    for part in parts:
        found = columns[part.template]
        taken, written = found.take(len(part.rows) * part.template.records_per_row)
        keys += taken
        values += written
        headers += [found.headers] * len(taken)
    return ProducerRun(parts[0].template.topic, keys, values, None, None, headers if any(headers) else None)


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
) -> tuple[TemplateWriter | None, TemplateWriter] | None:
    write_key = None if key is None else converters.key.template_writer(key)
    write_value = converters.value.template_writer(value)
    if write_value is None or (write_key is None) is not (key is None):
        return None
    return write_key, write_value


def _null(converter: Converter, topic: str) -> list[bytes | None]:
    return converter.encode_batch(topic, None, [None])
