"""Turns changes of rows into records: envelopes or flat rows, with the cells of rows as texts.

A row of a template has the cells of ``before``, then those of ``after`` (as far as the operation has them), the number of the
change in its version, and the values that all changes of a batch share.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from connect.change_events.envelope import CREATE, DELETE, READ, UPDATE
from connect.data.headers import Header, Headers
from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.errors import ConnectError, DataError
from connect.record import SourceRecord
from connect.text_records import (
    Cell,
    Fixed,
    Joined,
    MixedTextRecords,
    Part,
    RecordTemplate,
    Slot,
    StructTemplate,
    TextKind,
    TextRows,
)
from connect.version import sluice_version
from connectors.spark.decode.arrow_casts import as_array
from connectors.spark.source.config import ENVELOPE, FLAT
from connectors.spark.source.table_feed import DELETE_CODE, Codes, FeedBatch, TableSchema
from connectors.spark.source.types import ColumnTexts, column_schema, column_texts

OP_HEADER = "__op"
SOURCE = (
    SchemaBuilder.struct()
    .name("connectors.spark.Source")
    .version(1)
    .field("version", Schema.STRING)
    .field("connector", Schema.STRING)
    .field("name", Schema.STRING)
    .field("ts_ms", Schema.INT64)
    .field("snapshot", Schema.OPTIONAL_STRING)
    .field("db", Schema.STRING)
    .field("sequence", Schema.OPTIONAL_STRING)
    .field("table", Schema.STRING)
    .field("table_id", Schema.STRING)
    .field("table_version", Schema.INT64)
    .build()
)
_CODES = {ord(op): op for op in (READ, CREATE, UPDATE, DELETE)}


class _Shared(NamedTuple):
    """The slots of templates: what the changes of a batch share."""

    sequence: str
    ts_ms: int
    snapshot: str
    table_id: str
    table_version: int
    now_ms: int
    offset_after: Callable[[int], dict[str, Any]]
    has_nulls: bool = True
    is_plain: bool = False
    """See :class:`connect.text_records.TextRows`."""


_SLOTS = {name: Slot(number) for number, name in enumerate(_Shared._fields)}


@dataclass(frozen=True, slots=True)
class FeedEventSettings:
    """How the changes of a table become records. ``name`` and ``database`` are those of the source block."""

    topic: str
    name: str
    database: str
    table: str
    location: str
    keys: tuple[str, ...]
    value_format: str
    tombstones: bool
    partition: Mapping[str, str]


class FeedEvents:
    """Builds the records of one table. Templates are compiled once per schema and operation."""

    def __init__(self, settings: FeedEventSettings) -> None:
        self.settings = settings
        self._known: dict[int, _SchemaTemplates] = {}

    def add(self, records: MixedTextRecords, batch: FeedBatch) -> None:
        """Adds the records of a batch.

        Raises DataError for a value that no record can hold, ConnectError for a delete that a flat row without a key cannot
        express.
        """
        known = self._known.get(id(batch.schema))
        if known is None:  # the templates keep the schema, and so its identity
            known = self._known[id(batch.schema)] = _SchemaTemplates(batch.schema, self.settings)
        version, settings = batch.version, self.settings
        now = time.time_ns() // 1_000_000
        marker = "true" if version.is_snapshot else "false"
        sequence = f'["{version.version}","'
        offset_after = batch.offset_after or version.offset_after
        shared = _Shared(sequence, version.ts_ms, marker, version.table_id, version.version, now, offset_after)
        changes = batch.changes
        if settings.value_format == FLAT and not settings.keys and DELETE_CODE in changes.operations:
            raise ConnectError(
                f"version {version.version} of table {settings.location} deletes rows, which source.value.format=flat cannot "
                "express without a key: set key.columns to write tombstones, or source.value.format=envelope"
            )
        rows = known.rows(changes.operations, changes.before, changes.after, batch.first_row, shared)
        for start, end, code in _runs(changes.operations):
            template, found, places = rows[code]
            run = found[places[start] : places[start] + end - start]
            if template.records is None:
                for row in run:
                    records.append(template.reader.tombstone(row))
            else:
                records.add_rows(template.records, run)


def _runs(operations: Codes) -> list[tuple[int, int, int]]:
    """Start, end, and code of each run of equal codes."""
    if not len(operations):
        return []
    starts = np.flatnonzero(np.r_[True, operations[1:] != operations[:-1]])
    ends = np.r_[starts[1:], len(operations)]
    return [(int(a), int(b), int(operations[a])) for a, b in zip(starts, ends, strict=True)]


@dataclass(frozen=True, slots=True)
class _OperationTemplate:
    """``records`` is None if each row is one tombstone."""

    records: RecordTemplate | None
    reader: _ChangeReader
    has_before: bool
    has_after: bool


class _SchemaTemplates:
    """The schemas and templates of a table's schema."""

    def __init__(self, schema: TableSchema, settings: FeedEventSettings) -> None:
        self._schema = schema
        self._settings = settings
        self.columns: dict[str, ColumnTexts] = {}
        fields = []
        for column in schema.columns:
            found = column_schema(column.type, optional=column.nullable)
            self.columns[column.name] = column_texts(column.type, found)
            fields.append((column.name, found))
        topic = settings.topic
        self.value = Schema(Type.STRUCT, name=f"{topic}.Value", optional=settings.value_format == ENVELOPE, fields=fields)
        key_fields = [(name, self.columns[name].schema) for name in settings.keys]
        self.key = Schema(Type.STRUCT, name=f"{topic}.Key", fields=key_fields) if key_fields else None
        self.envelope = Schema(
            Type.STRUCT,
            name=f"{topic}.Envelope",
            version=1,
            fields=[
                ("before", self.value),
                ("after", self.value),
                ("source", SOURCE),
                ("op", Schema.STRING),
                ("ts_ms", Schema.OPTIONAL_INT64),
            ],
        )
        self._templates: dict[int, _OperationTemplate] = {}

    def rows(
        self, operations: Codes, before: pa.Table | None, after: pa.Table | None, first_row: int, shared: _Shared
    ) -> dict[int, tuple[_OperationTemplate, list[Sequence[Any]], Any]]:
        """By operation: its template, its rows, and at which of them each change is."""
        found: dict[int, tuple[_OperationTemplate, list[Sequence[Any]], Any]] = {}
        for code in np.unique(operations).tolist():
            template = self._template(code)
            mask = operations == code
            count = int(mask.sum())
            is_all = count == len(operations)
            images = [image for image, has in ((before, template.has_before), (after, template.has_after)) if has]
            chosen = [image if is_all or image is None else image.filter(pa.array(mask)) for image in images]
            numbers = np.flatnonzero(mask) + first_row
            arrays = [(name, as_array(image[name])) for image in chosen if image is not None for name in self.columns]
            cells = [self._texts(name, array) for name, array in arrays]
            own = shared._replace(
                has_nulls=any(array.null_count for _, array in arrays),
                is_plain=all(self.columns[name].are_plain(array) for name, array in arrays),
            )
            rows: list[Sequence[Any]] = list(zip(*cells, map(str, numbers.tolist()), repeat(own, count), strict=True))
            found[code] = template, rows, np.cumsum(mask) - 1
        return found

    def _texts(self, name: str, values: pa.Array) -> list[Any]:
        try:
            return self.columns[name].texts(values)
        except DataError as e:
            raise DataError(f"column {name} of table {self._settings.location}: {e.message}") from e

    def _template(self, code: int) -> _OperationTemplate:
        if code not in self._templates:
            self._templates[code] = self._compile(_CODES[code])
        return self._templates[code]

    def _compile(self, op: str) -> _OperationTemplate:
        settings, width = self._settings, len(self.columns)
        is_flat = settings.value_format == FLAT
        has_before = op in (UPDATE, DELETE) and not (is_flat and op == UPDATE)
        has_after = op != DELETE
        after_at = width if has_before and has_after else 0
        row_number = width * (has_before + has_after)
        key = None
        if self.key is not None:
            places = {name: number for number, name in enumerate(self.columns)}
            key = StructTemplate(self.key, tuple(self._cell(name, after_at + places[name]) for name in settings.keys))
        has_tombstones = op == DELETE and not is_flat and settings.tombstones and key is not None
        reader = _ChangeReader(self, settings, op, row_number, has_before, has_after, has_tombstones)
        if is_flat and op == DELETE:
            return _OperationTemplate(None, reader, has_before, has_after)
        row = StructTemplate(self.value, tuple(self._cell(name, after_at + n) for n, name in enumerate(self.columns)))
        value = row
        headers: tuple[Header, ...] = (Header(OP_HEADER, Schema.STRING, op),)
        if not is_flat:
            parts: dict[str, Part] = {"op": Fixed(op), "ts_ms": _SLOTS["now_ms"], "source": self._source(row_number)}
            if has_before:
                parts["before"] = StructTemplate(self.value, tuple(self._cell(n, i) for i, n in enumerate(self.columns)))
            if has_after:
                parts["after"] = row
            value, headers = _struct_template(self.envelope, parts), ()
        records = RecordTemplate(settings.topic, key, value, headers, 2 if has_tombstones else 1, reader)
        return _OperationTemplate(records, reader, has_before, has_after)

    def _cell(self, name: str, place: int) -> Cell:
        column = self.columns[name]
        return Cell(place, column.kind, column.decode)

    def _source(self, row_number: int) -> StructTemplate:
        names = ("ts_ms", "snapshot", "table_id", "table_version")
        return _struct_template(
            SOURCE,
            {
                **{name: Fixed(value) for name, value in self.source_constants().items()},
                **{name: _SLOTS[name] for name in names},
                "sequence": Joined(_SLOTS["sequence"].number, row_number, '"]'),
            },
        )

    def source_constants(self) -> dict[str, Any]:
        """The members of source blocks that never change."""
        settings = self._settings
        return {
            "version": sluice_version(),
            "connector": "spark",
            "name": settings.name,
            "db": settings.database,
            "table": settings.table,
        }


def _struct_template(schema: Schema, parts: Mapping[str, Part]) -> StructTemplate:
    """A struct whose other fields are null."""
    return StructTemplate(schema, tuple(parts.get(field.name, Fixed(None)) for field in schema.fields or ()))


class _ChangeReader:
    """Reads the rows of one template (:class:`connect.text_records.RowReader`)."""

    def __init__(
        self,
        templates: _SchemaTemplates,
        settings: FeedEventSettings,
        op: str,
        row_number: int,
        has_before: bool,
        has_after: bool,
        has_tombstones: bool,
    ) -> None:
        """``row_number`` is the place of that number in a row."""
        self._templates = templates
        self._settings = settings
        self._op = op
        self._row_number = row_number
        self._has_before = has_before
        self._has_after = has_after
        self._has_tombstones = has_tombstones

    def text_rows(self, rows: Sequence[Sequence[Any]]) -> TextRows:
        batches = {id(row[-1]): row[-1] for row in rows}.values()
        return TextRows(rows, any(one.has_nulls for one in batches), all(one.is_plain for one in batches), None)

    def create(self, row: Sequence[Any]) -> list[SourceRecord]:
        before = self._values(row, 0) if self._has_before else None
        after = self._values(row, len(self._templates.columns) if self._has_before else 0) if self._has_after else None
        record = self._record(row, before, after)
        if not self._has_tombstones:
            return [record]
        return [record, self.tombstone(row)]

    def tombstone(self, row: Sequence[Any]) -> SourceRecord:
        """The tombstone of a delete; with flat rows it is the only record."""
        settings = self._settings
        headers = Headers([Header(OP_HEADER, Schema.STRING, self._op)]) if settings.value_format == FLAT else None
        return SourceRecord(
            settings.partition,
            self._offset(row, is_last=True),
            settings.topic,
            None,
            self._templates.key,
            self._key(self._values(row, 0)),
            headers=headers,
        )

    def last_offset(self, row: Sequence[Any]) -> Mapping[str, Any]:
        return self._offset(row, is_last=True)

    def _record(self, row: Sequence[Any], before: list[Any] | None, after: list[Any] | None) -> SourceRecord:
        templates, settings = self._templates, self._settings
        shared: _Shared = row[-1]
        present = before if after is None else after
        assert present is not None
        headers, value_schema, value = None, templates.value, Struct(templates.value, present)
        if settings.value_format == FLAT:
            headers = Headers([Header(OP_HEADER, Schema.STRING, self._op)])
        else:
            source = Struct(SOURCE)
            members = {
                **templates.source_constants(),
                **{name: getattr(shared, name) for name in ("ts_ms", "snapshot", "table_id", "table_version")},
                "sequence": f'{shared.sequence}{row[self._row_number]}"]',
            }
            source.values = [members[field.name] for field in SOURCE.fields or ()]
            images = [None if image is None else Struct(templates.value, image) for image in (before, after)]
            value_schema = templates.envelope
            value = Struct(value_schema, [*images, source, self._op, shared.now_ms])
        offset = self._offset(row, is_last=not self._has_tombstones)
        return SourceRecord(
            settings.partition,
            offset,
            settings.topic,
            None,
            templates.key,
            self._key(present),
            value_schema,
            value,
            None,
            headers,
        )

    def _key(self, values: Sequence[Any]) -> Struct | None:
        if self._templates.key is None:
            return None
        places = {name: number for number, name in enumerate(self._templates.columns)}
        return Struct(self._templates.key, [values[places[name]] for name in self._settings.keys])

    def _values(self, row: Sequence[Any], start: int) -> list[Any]:
        values = []
        for place, column in enumerate(self._templates.columns.values(), start):
            cell = row[place]
            values.append(None if cell is None else cell if column.kind is TextKind.VALUE else column.decode(cell))
        return values

    def _offset(self, row: Sequence[Any], *, is_last: bool) -> dict[str, Any]:
        shared: _Shared = row[-1]
        # A delete whose tombstone was not written is repeated with it.
        return shared.offset_after(int(row[self._row_number]) + is_last)
