"""Decodes records of one topic to :class:`ChangeBatch`: whole batches of JSON natively, everything else record by record."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connect.converters.api import Converter
from connect.data.schema import Schema, Type
from connect.errors import DataError, SchemaError
from connect.record import SinkRecord
from connectors.spark.decode import schema_inference
from connectors.spark.decode.arrow_types import ColumnConversion, column_for_schema, struct_column
from connectors.spark.decode.change_batch import DELETE, TOMBSTONE, ChangeBatch, empty_rows, make_meta, scatter, table_of_struct
from connectors.spark.decode.json import NotBatchable, Prefix, parse, split_by_prefix
from connectors.spark.decode.raw_buffer import RawBuffer

SINGLE_FIELD = "value"
DECODE_ERRORS = (DataError, pa.ArrowException, ValueError, TypeError, OverflowError, RecursionError)
"""Errors for values that cannot be read or do not have the type of their column."""
_SOURCE_NAMES = (("db", pa.string()), ("schema", pa.string()), ("table", pa.string()))
_SOURCE = pa.struct([("ts_ms", pa.int64())])
_SOURCE_WITH_NAMES = pa.struct([("ts_ms", pa.int64()), *_SOURCE_NAMES])


@dataclass(frozen=True, slots=True)
class ValueLayout:
    """The layout of values of one schema: an envelope, a plain row, or a single value (a row with one column)."""

    envelope: bool
    row: ColumnConversion
    single: bool = False


# Large class: it is split into the batch path and the record path when the sink is redesigned.
class TopicDecoder:
    """Decodes one topic and caches its schemas. Not thread-safe."""

    def __init__(
        self,
        topic: str,
        key_converter: Converter,
        value_converter: Converter,
        *,
        key_schemas: bool,
        value_schemas: bool,
        fill_defaults: bool,
        key_name: str | None,
        needs_names: bool,
        needs_keys: bool,
    ) -> None:
        self.topic = topic
        self._key_converter = key_converter
        self._value_converter = value_converter
        self._key_schemas = key_schemas
        self._value_schemas = value_schemas
        self._fill_defaults = fill_defaults
        self._key_name = key_name
        self._source = _SOURCE_WITH_NAMES if needs_names else _SOURCE
        self._needs_names = needs_names
        self._needs_keys = needs_keys
        self._value_prefixes: list[Prefix] = []
        self._key_prefixes: list[Prefix] = []
        self._layouts: dict[int, tuple[Schema, ValueLayout]] = {}
        self._key_columns: dict[int, tuple[Schema, ColumnConversion]] = {}
        self.inferred_value_schema = schema_inference.InferredSchema()
        self._inferred_key_schema = schema_inference.InferredSchema()

    # -- raw -------------------------------------------------------------------------------------------------------------

    def decode_raw(self, raw: RawBuffer, sequence: int) -> list[ChangeBatch]:
        """Decodes raw records; groups are in no order. ``sequence`` numbers the first record. Raises DataError."""
        try:
            return self.decode_batch(raw, sequence)
        except (NotBatchable, *DECODE_ERRORS):
            # The record path supports more forms, and its errors name the record and the field.
            return self.decode_records(self.records(raw), sequence)

    def decode_batch(self, raw: RawBuffer, sequence: int) -> list[ChangeBatch]:
        """Decodes JsonConverter's usual bytes only. Raises NotBatchable or one of ``DECODE_ERRORS``, which name no record."""
        if self._value_schemas:
            groups, nulls = split_by_prefix(raw.values, self._value_prefixes, defaults=self._fill_defaults)
            found = [self._changes_with_schema(raw, sequence, *group) for group in groups]
        else:
            nulls = [i for i, v in enumerate(raw.values) if v is None]
            lines = [v for v in raw.values if v is not None]
            positions = [i for i, v in enumerate(raw.values) if v is not None] if nulls else list(range(len(lines)))
            found = [self._changes_without_schema(raw, sequence, positions, lines)] if lines else []
        if nulls:
            empty = table_of_struct(pa.array([], pa.struct([])))
            found.append(self._assemble(raw, sequence, nulls, pa.array([TOMBSTONE] * len(nulls)), None, None, empty))
        return found

    def _changes_with_schema(
        self, raw: RawBuffer, sequence: int, prefix: Prefix, positions: list[int], payloads: list[bytes]
    ) -> ChangeBatch:
        layout = self._layout(prefix.schema)
        json_type = layout.row.json
        if json_type is None or b"null" in payloads:
            raise NotBatchable
        if layout.single:
            payloads = [b'{"value":' + p + b"}" for p in payloads]
        if not layout.envelope:
            table = parse(payloads, pa.schema(list(json_type)), infer=False)
            return self._plain(raw, sequence, positions, layout.row.from_json(_struct_of(table)))
        types = pa.schema([("before", json_type), ("after", json_type), ("op", pa.string()), ("source", self._source)])
        return self._envelopes(raw, sequence, positions, parse(payloads, types, infer=False), layout.row)

    def _changes_without_schema(self, raw: RawBuffer, sequence: int, positions: list[int], lines: list[bytes]) -> ChangeBatch:
        inferred = self.inferred_value_schema
        if inferred.envelope is None:
            inferred.envelope = schema_inference.are_envelopes(lines)
        table = inferred.parse(lines, self._source)
        row = inferred.column()
        if inferred.envelope:
            return self._envelopes(raw, sequence, positions, table, row)
        return self._plain(raw, sequence, positions, row.from_json(_struct_of(table)))

    def _envelopes(
        self, raw: RawBuffer, sequence: int, positions: list[int], table: pa.Table, row: ColumnConversion
    ) -> ChangeBatch:
        operations = table["op"].combine_chunks()
        _require_operations(operations, raw, positions)
        image = _image(table, operations)
        source = table["source"].combine_chunks()
        names = [pc.struct_field(source, n) for n, _ in _SOURCE_NAMES] if self._needs_names else None
        converted = table_of_struct(row.from_json(image))
        return self._assemble(raw, sequence, positions, operations, pc.struct_field(source, "ts_ms"), names, converted)

    def _plain(self, raw: RawBuffer, sequence: int, positions: list[int], rows: pa.Array) -> ChangeBatch:
        operations = pa.nulls(len(positions), pa.string())
        return self._assemble(raw, sequence, positions, operations, None, None, table_of_struct(rows))

    def _assemble(
        self,
        raw: RawBuffer,
        sequence: int,
        positions: Sequence[int],
        operations: pa.Array,
        source_ms: pa.Array | None,
        names: Sequence[pa.Array] | None,
        image: pa.Table,
    ) -> ChangeBatch:
        count = len(positions)
        sequences, partitions, offsets = _columns(raw, sequence, positions)
        source = pa.nulls(count, pa.int64()) if source_ms is None else source_ms
        if not image.num_columns:
            image = empty_rows(count)
        meta = make_meta(sequences, operations, source, partitions, offsets, names)
        return ChangeBatch(self.topic, meta, image, self._raw_keys(raw, positions, meta, operations))

    def _raw_keys(self, raw: RawBuffer, positions: Sequence[int], meta: pa.Table, operations: pa.Array) -> pa.Table | None:
        keys = [raw.keys[i] for i in positions]
        if not self._needs_keys:
            # Appended rows get their columns from the image; only tombstones and deletes need their key.
            is_needed = pc.fill_null(pc.is_in(operations, pa.array([DELETE, TOMBSTONE])), False).to_pylist()
            if True not in is_needed:
                return None
            keys = [k if t else None for k, t in zip(keys, is_needed, strict=True)]
        present = [i for i, k in enumerate(keys) if k is not None]
        if not present:
            return None
        if not self._key_schemas:
            lines = [k for k in keys if k is not None]
            if not all(line.startswith(b"{") for line in lines):
                lines = [_wrap(line, self._require_key_name()) for line in lines]
            table = self._inferred_key_schema.parse(lines, None)
            return scatter(
                [(present, table_of_struct(self._inferred_key_schema.column().from_json(_struct_of(table))))], len(keys)
            )
        groups, _ = split_by_prefix(keys, self._key_prefixes)
        return scatter([(where, self._key_table(prefix, payloads)) for prefix, where, payloads in groups], len(keys))

    def _key_table(self, prefix: Prefix, payloads: list[bytes]) -> pa.Table:
        column = self._key_column(prefix.schema)
        if prefix.schema.type is not Type.STRUCT:
            payloads = [_wrap(p, self._require_key_name()) for p in payloads]
        if column.json is None:
            raise NotBatchable
        return table_of_struct(column.from_json(_struct_of(parse(payloads, pa.schema(list(column.json)), infer=False))))

    def records(self, raw: RawBuffer) -> list[SinkRecord]:
        """Converts records with the converters. Raises DataError that names the record."""
        records = []
        for partition, offset, key, value in zip(raw.partitions, raw.offsets, raw.keys, raw.values, strict=True):
            where = f"topic {self.topic}, partition {partition}, offset {offset}"
            try:
                k = self._key_converter.to_connect_data(self.topic, key) if self._needs_keys or value is None else (None, None)
            except DataError as e:
                raise DataError(f"{where}: the key cannot be read: {e.message}") from e
            try:
                v = self._value_converter.to_connect_data(self.topic, value)
            except DataError as e:
                raise DataError(f"{where}: the value cannot be read: {e.message}") from e
            records.append(SinkRecord(self.topic, partition, k[0], k[1], v[0], v[1], offset))
        return records

    # -- records ---------------------------------------------------------------------------------------------------------

    def decode_records(self, records: Sequence[SinkRecord], sequence: int) -> list[ChangeBatch]:
        """Like :meth:`decode_raw`, for records of any converter and after any transformations."""
        try:
            return self._decode_records(records, sequence)
        except DECODE_ERRORS as e:
            if isinstance(e, DataError):
                raise
            raise DataError(f"topic {self.topic}: {_field_from_error(e)}{e}") from e

    def _decode_records(self, records: Sequence[SinkRecord], sequence: int) -> list[ChangeBatch]:
        groups: dict[int, tuple[Schema | None, list[int]]] = {}
        for position, record in enumerate(records):
            kind = -1 if record.value is None else id(record.value_schema)
            groups.setdefault(kind, (record.value_schema, []))[1].append(position)
        return [
            self._record_group(records, sequence, None if kind == -1 else schema, positions, kind == -1)
            for kind, (schema, positions) in groups.items()
        ]

    def _record_group(
        self, records: Sequence[SinkRecord], sequence: int, schema: Schema | None, positions: list[int], tombstones: bool
    ) -> ChangeBatch:
        chosen = [records[i] for i in positions]
        raw = RawBuffer(
            self.topic,
            [_partition(r) for r in chosen],
            [r.offset for r in chosen],
        )
        count = len(chosen)
        operations: pa.Array = pa.nulls(count, pa.string())
        source_ms: pa.Array = pa.nulls(count, pa.int64())
        names = None
        image = empty_rows(count)
        if tombstones:
            operations = pa.array([TOMBSTONE] * count)
        elif schema is None:
            operations, source_ms, names, image = self._schemaless_values(chosen, raw)
        else:
            layout = self._layout(schema)
            values = [r.value for r in chosen]
            if layout.single:
                values = [{SINGLE_FIELD: v} for v in values]
            if layout.envelope:
                operations = pa.array([v.get("op") for v in values], pa.string())
                _require_operations(operations, raw, range(count))
                sources = [v.get("source") for v in values]
                source_ms = pa.array([_member(s, "ts_ms") for s in sources], pa.int64())
                if self._needs_names:
                    names = [pa.array([_member(s, n) for s in sources], pa.string()) for n, _ in _SOURCE_NAMES]
                values = [v.get("before") if v.get("op") == DELETE else v.get("after") for v in values]
            image = table_of_struct(_convert(values, layout.row, raw))
        sequences = pa.array([sequence + i for i in positions], pa.int64())
        partitions, offsets = pa.array(raw.partitions, pa.int32()), pa.array(raw.offsets, pa.int64())
        meta = make_meta(sequences, operations, source_ms, partitions, offsets, names)
        return ChangeBatch(self.topic, meta, image, self._record_keys(chosen, raw, operations))

    def _schemaless_values(
        self, records: Sequence[SinkRecord], raw: RawBuffer
    ) -> tuple[pa.Array, pa.Array, list[pa.Array] | None, pa.Table]:
        """Encodes values without a schema to JSON and decodes that, so that both paths give the same table."""
        lines = [_dump(r.value, raw, i) for i, r in enumerate(records)]
        again = RawBuffer(self.topic, raw.partitions, raw.offsets, [None] * len(lines), list(lines))
        try:
            changes = self._changes_without_schema(again, 0, list(range(len(lines))), lines)
        except (pa.ArrowException, ValueError, NotBatchable, RecursionError) as e:
            raise self._located(again, lines, e) from e
        meta = changes.meta.combine_chunks()
        names = [meta[n].combine_chunks() for n in ("database", "schema", "table")] if self._needs_names else None
        return meta["op"].combine_chunks(), meta["source_ms"].combine_chunks(), names, changes.image

    def _located(self, raw: RawBuffer, lines: list[bytes], error: Exception) -> DataError:
        """The error with the location of its record, found by bisection."""
        low, high = 0, len(lines)
        while high - low > 1:
            middle = (low + high) // 2
            try:
                self.inferred_value_schema.parse(lines[low:middle], self._source)
                low = middle
            except (pa.ArrowException, ValueError, DataError):
                high = middle
        try:
            self.inferred_value_schema.parse(lines[low:high], self._source)
        except (pa.ArrowException, ValueError, DataError) as e:
            error = e
        what = _field_from_error(error)
        if not what:
            name = self.inferred_value_schema.find_misfit(lines[low])
            what = f"field {name}: " if name else ""
        return DataError(f"{_location(raw, low)}: {what}{error}; a column keeps the type of its first values")

    def _record_keys(self, records: Sequence[SinkRecord], raw: RawBuffer, operations: pa.Array) -> pa.Table | None:
        wanted = [True] * len(records)
        if not self._needs_keys:
            wanted = pc.fill_null(pc.is_in(operations, pa.array([DELETE, TOMBSTONE])), False).to_pylist()
        groups: dict[int, tuple[Schema | None, list[int]]] = {}
        for position, record in enumerate(records):
            if record.key is not None and wanted[position]:
                groups.setdefault(id(record.key_schema), (record.key_schema, []))[1].append(position)
        parts: list[tuple[Sequence[int], pa.Table]] = []
        for schema, positions in groups.values():
            keys = [records[i].key for i in positions]
            if schema is None:
                lines = [_dump(k if isinstance(k, dict) else {self._require_key_name(): k}, raw, 0) for k in keys]
                table = self._inferred_key_schema.parse(lines, None)
                parts.append((positions, table_of_struct(self._inferred_key_schema.column().from_json(_struct_of(table)))))
                continue
            if schema.type is not Type.STRUCT:
                keys = [{self._require_key_name(): k} for k in keys]
            parts.append((positions, table_of_struct(_convert(keys, self._key_column(schema), raw))))
        return scatter(parts, len(records))

    # -- inferred types -------------------------------------------------------------------------------------------------

    def inferred_state(self) -> object:
        """The types inferred so far from values without a schema, for :meth:`restore_inferred`."""
        return self.inferred_value_schema.state(), self._inferred_key_schema.state()

    def restore_inferred(self, inferred_state: Any) -> None:
        """Restores the inferred types, so that bad records do not affect them."""
        of_values, of_keys = inferred_state
        self.inferred_value_schema.restore(of_values)
        self._inferred_key_schema.restore(of_keys)

    def detect_envelopes(self, values: Sequence[bytes | None]) -> None:
        """Decides from all these values whether values without a schema are change events: a few of them may be bad."""
        lines = [v for v in values if v is not None]
        if self.inferred_value_schema.envelope is None and lines and not self._value_schemas:
            self.inferred_value_schema.envelope = schema_inference.are_envelopes(lines)

    # -- schemas ---------------------------------------------------------------------------------------------------------

    def _layout(self, schema: Schema) -> ValueLayout:
        # By identity; the cached schema stays alive so that no other object gets its id.
        known = self._layouts.get(id(schema))
        if known is None:
            known = self._layouts[id(schema)] = (schema, detect_layout(schema))
        return known[1]

    def _key_column(self, schema: Schema) -> ColumnConversion:
        known = self._key_columns.get(id(schema))
        if known is None:
            column = column_for_schema(schema)
            if schema.type is not Type.STRUCT:
                column = struct_column([(self._require_key_name(), column)])
            known = self._key_columns[id(schema)] = (schema, column)
        return known[1]

    def _require_key_name(self) -> str:
        if self._key_name is None:
            raise DataError(
                f"topic {self.topic}: the record key is a single value without a name; set key.columns to its column name"
            )
        return self._key_name


def detect_layout(schema: Schema) -> ValueLayout:
    """The layout of values of this schema. Raises SchemaError."""
    if schema.type is not Type.STRUCT:
        return ValueLayout(False, struct_column([(SINGLE_FIELD, column_for_schema(schema))]), single=True)
    names = set(schema.field_names)
    if (schema.name or "").endswith(".Envelope") or {"before", "after", "op", "source"} <= names:
        after = schema.field("after")
        if after is None or after.schema.type is not Type.STRUCT:
            raise SchemaError(f"envelope {schema.name} has no struct field 'after'")
        return ValueLayout(True, column_for_schema(after.schema))
    return ValueLayout(False, column_for_schema(schema))


def _require_operations(operations: pa.Array, raw: RawBuffer, positions: Sequence[int]) -> None:
    if operations.null_count:
        at = pc.index(operations.is_null(), True).as_py()
        raise DataError(f"{_location(raw, positions[at])}: no op field; change events and other records share the topic")


def _image(table: pa.Table, operations: pa.Array) -> pa.Array:
    after = table["after"].combine_chunks()
    deletes = pc.equal(operations, DELETE)
    if not pc.any(deletes).as_py():
        return after
    return pc.if_else(deletes, table["before"].combine_chunks(), after)


def _struct_of(table: pa.Table) -> pa.Array:
    struct = table.to_struct_array()
    return struct.combine_chunks() if isinstance(struct, pa.ChunkedArray) else struct


def _columns(raw: RawBuffer, sequence: int, positions: Sequence[int]) -> tuple[pa.Array, pa.Array, pa.Array]:
    partitions, offsets = pa.array(raw.partitions, pa.int32()), pa.array(raw.offsets, pa.int64())
    index = pa.array(positions, pa.int64())
    if len(positions) != len(raw.offsets):
        partitions, offsets = partitions.take(index), offsets.take(index)
    return pc.add(index, sequence), partitions, offsets


def _convert(values: list[Any], row: ColumnConversion, raw: RawBuffer) -> pa.Array:
    """Converts struct values to the row's table types. Raises DataError that names record and field."""
    prepare = row.prepare
    assert prepare is not None
    try:
        prepared = [None if v is None else prepare(v) for v in values]
        return row.finish(pa.array(prepared, row.stored))
    except (ValueError, TypeError, OverflowError, DataError, pa.ArrowException) as error:
        for index, value in enumerate(values):
            try:
                if value is not None:
                    row.finish(pa.array([prepare(value)], row.stored))
            except (ValueError, TypeError, OverflowError, DataError, pa.ArrowException) as e:
                raise DataError(f"{_location(raw, index)}: {_find_bad_field(value, e)}{e}") from e
        raise DataError(f"topic {raw.topic}: {error}") from error


def _find_bad_field(value: Any, error: Exception) -> str:
    """``field x: `` for the first field of a struct value that does not fit its column."""
    schema = getattr(value, "schema", None)
    for member in getattr(schema, "fields", None) or ():
        column = column_for_schema(member.schema)
        try:
            single = value.get(member.name)
            prepared = single if single is None or column.prepare is None else column.prepare(single)
            column.finish(pa.array([prepared], column.stored))
        except (ValueError, TypeError, OverflowError, DataError, pa.ArrowException):
            return f"field {member.name}: "
    return ""


def _member(source: Any, name: str) -> Any:
    if source is None or source.schema.field(name) is None:
        return None
    return source.get(name)


def _location(raw: RawBuffer, index: int) -> str:
    return f"topic {raw.topic}, partition {raw.partitions[index]}, offset {raw.offsets[index]}"


def _wrap(text: bytes, name: str) -> bytes:
    return b"{" + json.dumps(name).encode() + b":" + text + b"}"


def _partition(record: SinkRecord) -> int:
    return record.partition if record.original_partition is None else record.original_partition


def _field_from_error(error: Exception) -> str:
    """``field x: `` for the field that an error of Arrow's JSON reader names."""
    column = re.search(r"Column\(/?([^)]*)\)", str(error))
    return f"field {column.group(1).removeprefix('after/').removeprefix('before/')}: " if column else ""


def _dump(value: Any, raw: RawBuffer, index: int) -> bytes:
    try:
        return schema_inference.dump(value)
    except (TypeError, ValueError) as e:
        name = schema_inference.find_unserializable_member(value)
        what = f"JSON cannot represent a value without a schema: {e}; use records with a schema"
        raise DataError(f"{_location(raw, index)}: {'' if name is None else f'field {name}: '}{what}") from e
