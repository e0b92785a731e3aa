"""Records of one topic to :class:`Changes`: natively for whole batches of JSON, record by record for everything else."""

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
from connectors.spark.decode.arrow_types import Column, column_of, struct_column
from connectors.spark.decode.change_batch import DELETE, TOMBSTONE, Changes, make_meta, no_columns, scatter, table_of_struct
from connectors.spark.decode.json import NotBatchable, Prefix, parse, split_by_prefix
from connectors.spark.decode.raw_buffer import Raw

SINGLE_FIELD = "value"
UNFIT = (DataError, pa.ArrowException, ValueError, TypeError, OverflowError, RecursionError)
"""What a value raises on its way into columns that is not of their type, or not to be read at all."""
_SOURCE_NAMES = (("db", pa.string()), ("schema", pa.string()), ("table", pa.string()))
_SOURCE = pa.struct([("ts_ms", pa.int64())])
_SOURCE_WITH_NAMES = pa.struct([("ts_ms", pa.int64()), *_SOURCE_NAMES])


@dataclass(frozen=True, slots=True)
class Form:
    """What the values of one schema are: an envelope, a plain row, or a single value (then the row has one column)."""

    envelope: bool
    row: Column
    single: bool = False


class TopicDecoder:
    """Decodes one topic, and remembers its schemas. For one thread."""

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
        names_wanted: bool,
        keys_wanted: bool,
    ) -> None:
        self.topic = topic
        self._key_converter = key_converter
        self._value_converter = value_converter
        self._key_schemas = key_schemas
        self._value_schemas = value_schemas
        self._fill_defaults = fill_defaults
        self._key_name = key_name
        self._source = _SOURCE_WITH_NAMES if names_wanted else _SOURCE
        self._names_wanted = names_wanted
        self._keys_wanted = keys_wanted
        self._value_prefixes: list[Prefix] = []
        self._key_prefixes: list[Prefix] = []
        self._forms: dict[int, tuple[Schema, Form]] = {}
        self._key_columns: dict[int, tuple[Schema, Column]] = {}
        self.value_shape = schema_inference.Shape()
        self._key_shape = schema_inference.Shape()

    # -- raw -------------------------------------------------------------------------------------------------------------

    def decode_raw(self, raw: Raw, sequence: int) -> list[Changes]:
        """The changes, in no order of groups; ``sequence`` numbers the first record. Raises DataError."""
        try:
            return self.decode_batch(raw, sequence)
        except (NotBatchable, *UNFIT):
            # The record path knows more forms, and says which record and field it was.
            return self.decode_records(self.records(raw), sequence)

    def decode_batch(self, raw: Raw, sequence: int) -> list[Changes]:
        """The same for JsonConverter's usual bytes only. Raises NotBatchable or one of ``UNFIT``, which name no record."""
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
        self, raw: Raw, sequence: int, prefix: Prefix, positions: list[int], payloads: list[bytes]
    ) -> Changes:
        form = self._form(prefix.schema)
        json_type = form.row.json
        if json_type is None or b"null" in payloads:
            raise NotBatchable
        if form.single:
            payloads = [b'{"value":' + p + b"}" for p in payloads]
        if not form.envelope:
            table = parse(payloads, pa.schema(list(json_type)), infer=False)
            return self._plain(raw, sequence, positions, form.row.from_json(_struct_of(table)))
        types = pa.schema([("before", json_type), ("after", json_type), ("op", pa.string()), ("source", self._source)])
        return self._envelopes(raw, sequence, positions, parse(payloads, types, infer=False), form.row)

    def _changes_without_schema(self, raw: Raw, sequence: int, positions: list[int], lines: list[bytes]) -> Changes:
        shape = self.value_shape
        if shape.envelope is None:
            shape.envelope = schema_inference.are_envelopes(lines)
        table = shape.parse(lines, self._source)
        row = shape.column()
        if shape.envelope:
            return self._envelopes(raw, sequence, positions, table, row)
        return self._plain(raw, sequence, positions, row.from_json(_struct_of(table)))

    def _envelopes(self, raw: Raw, sequence: int, positions: list[int], table: pa.Table, row: Column) -> Changes:
        operations = table["op"].combine_chunks()
        _require_operations(operations, raw, positions)
        image = _image(table, operations)
        source = table["source"].combine_chunks()
        names = [pc.struct_field(source, n) for n, _ in _SOURCE_NAMES] if self._names_wanted else None
        converted = table_of_struct(row.from_json(image))
        return self._assemble(raw, sequence, positions, operations, pc.struct_field(source, "ts_ms"), names, converted)

    def _plain(self, raw: Raw, sequence: int, positions: list[int], rows: pa.Array) -> Changes:
        operations = pa.nulls(len(positions), pa.string())
        return self._assemble(raw, sequence, positions, operations, None, None, table_of_struct(rows))

    def _assemble(
        self,
        raw: Raw,
        sequence: int,
        positions: Sequence[int],
        operations: pa.Array,
        source_ms: pa.Array | None,
        names: Sequence[pa.Array] | None,
        image: pa.Table,
    ) -> Changes:
        count = len(positions)
        sequences, partitions, offsets = _columns(raw, sequence, positions)
        source = pa.nulls(count, pa.int64()) if source_ms is None else source_ms
        if not image.num_columns:
            image = no_columns(count)
        meta = make_meta(sequences, operations, source, partitions, offsets, names)
        return Changes(self.topic, meta, image, self._raw_keys(raw, positions, meta, operations))

    def _raw_keys(self, raw: Raw, positions: Sequence[int], meta: pa.Table, operations: pa.Array) -> pa.Table | None:
        keys = [raw.keys[i] for i in positions]
        if not self._keys_wanted:
            # Appended rows have their columns from the image; only a tombstone or a delete is told by its key.
            told = pc.fill_null(pc.is_in(operations, pa.array([DELETE, TOMBSTONE])), False).to_pylist()
            if True not in told:
                return None
            keys = [k if t else None for k, t in zip(keys, told, strict=True)]
        present = [i for i, k in enumerate(keys) if k is not None]
        if not present:
            return None
        if not self._key_schemas:
            lines = [k for k in keys if k is not None]
            if not all(line.startswith(b"{") for line in lines):
                lines = [_wrap(line, self._name_of_key()) for line in lines]
            table = self._key_shape.parse(lines, None)
            return scatter([(present, table_of_struct(self._key_shape.column().from_json(_struct_of(table))))], len(keys))
        groups, _ = split_by_prefix(keys, self._key_prefixes)
        return scatter([(where, self._key_table(prefix, payloads)) for prefix, where, payloads in groups], len(keys))

    def _key_table(self, prefix: Prefix, payloads: list[bytes]) -> pa.Table:
        column = self._key_column(prefix.schema)
        if prefix.schema.type is not Type.STRUCT:
            payloads = [_wrap(p, self._name_of_key()) for p in payloads]
        if column.json is None:
            raise NotBatchable
        return table_of_struct(column.from_json(_struct_of(parse(payloads, pa.schema(list(column.json)), infer=False))))

    def records(self, raw: Raw) -> list[SinkRecord]:
        """The records by the converters. Raises DataError that names the record."""
        records = []
        for partition, offset, key, value in zip(raw.partitions, raw.offsets, raw.keys, raw.values, strict=True):
            where = f"topic {self.topic}, partition {partition}, offset {offset}"
            try:
                k = self._key_converter.to_connect_data(self.topic, key) if self._keys_wanted or value is None else (None, None)
            except DataError as e:
                raise DataError(f"{where}: the key cannot be read: {e.message}") from e
            try:
                v = self._value_converter.to_connect_data(self.topic, value)
            except DataError as e:
                raise DataError(f"{where}: the value cannot be read: {e.message}") from e
            records.append(SinkRecord(self.topic, partition, k[0], k[1], v[0], v[1], offset))
        return records

    # -- records ---------------------------------------------------------------------------------------------------------

    def decode_records(self, records: Sequence[SinkRecord], sequence: int) -> list[Changes]:
        """As :meth:`decode_raw`, from records of any converter and after any transforms."""
        try:
            return self._decode_records(records, sequence)
        except UNFIT as e:
            if isinstance(e, DataError):
                raise
            raise DataError(f"topic {self.topic}: {_field_in(e)}{e}") from e

    def _decode_records(self, records: Sequence[SinkRecord], sequence: int) -> list[Changes]:
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
    ) -> Changes:
        chosen = [records[i] for i in positions]
        raw = Raw(
            self.topic,
            [_partition(r) for r in chosen],
            [r.offset for r in chosen],
        )
        count = len(chosen)
        operations: pa.Array = pa.nulls(count, pa.string())
        source_ms: pa.Array = pa.nulls(count, pa.int64())
        names = None
        image = no_columns(count)
        if tombstones:
            operations = pa.array([TOMBSTONE] * count)
        elif schema is None:
            operations, source_ms, names, image = self._schemaless_values(chosen, raw)
        else:
            form = self._form(schema)
            values = [r.value for r in chosen]
            if form.single:
                values = [{SINGLE_FIELD: v} for v in values]
            if form.envelope:
                operations = pa.array([v.get("op") for v in values], pa.string())
                _require_operations(operations, raw, range(count))
                sources = [v.get("source") for v in values]
                source_ms = pa.array([_member(s, "ts_ms") for s in sources], pa.int64())
                if self._names_wanted:
                    names = [pa.array([_member(s, n) for s in sources], pa.string()) for n, _ in _SOURCE_NAMES]
                values = [v.get("before") if v.get("op") == DELETE else v.get("after") for v in values]
            image = table_of_struct(_convert(values, form.row, raw))
        sequences = pa.array([sequence + i for i in positions], pa.int64())
        partitions, offsets = pa.array(raw.partitions, pa.int32()), pa.array(raw.offsets, pa.int64())
        meta = make_meta(sequences, operations, source_ms, partitions, offsets, names)
        return Changes(self.topic, meta, image, self._record_keys(chosen, raw, operations))

    def _schemaless_values(
        self, records: Sequence[SinkRecord], raw: Raw
    ) -> tuple[pa.Array, pa.Array, list[pa.Array] | None, pa.Table]:
        """Values without schema go the way of the bytes they would be, so that both ways give the same table."""
        lines = [_dump(r.value, raw, i) for i, r in enumerate(records)]
        again = Raw(self.topic, raw.partitions, raw.offsets, [None] * len(lines), list(lines))
        try:
            changes = self._changes_without_schema(again, 0, list(range(len(lines))), lines)
        except (pa.ArrowException, ValueError, NotBatchable, RecursionError) as e:
            raise self._located(again, lines, e) from e
        meta = changes.meta.combine_chunks()
        names = [meta[n].combine_chunks() for n in ("database", "schema", "table")] if self._names_wanted else None
        return meta["op"].combine_chunks(), meta["source_ms"].combine_chunks(), names, changes.image

    def _located(self, raw: Raw, lines: list[bytes], error: Exception) -> DataError:
        """The error with the record it is about: the first of the smallest part that still fails."""
        low, high = 0, len(lines)
        while high - low > 1:
            middle = (low + high) // 2
            try:
                self.value_shape.parse(lines[low:middle], self._source)
                low = middle
            except (pa.ArrowException, ValueError, DataError):
                high = middle
        try:
            self.value_shape.parse(lines[low:high], self._source)
        except (pa.ArrowException, ValueError, DataError) as e:
            error = e
        what = _field_in(error)
        if not what:
            name = self.value_shape.misfit(lines[low])
            what = f"field {name}: " if name else ""
        return DataError(f"{_where(raw, low)}: {what}{error}; a column keeps the type that its first values had")

    def _record_keys(self, records: Sequence[SinkRecord], raw: Raw, operations: pa.Array) -> pa.Table | None:
        wanted = [True] * len(records)
        if not self._keys_wanted:
            wanted = pc.fill_null(pc.is_in(operations, pa.array([DELETE, TOMBSTONE])), False).to_pylist()
        groups: dict[int, tuple[Schema | None, list[int]]] = {}
        for position, record in enumerate(records):
            if record.key is not None and wanted[position]:
                groups.setdefault(id(record.key_schema), (record.key_schema, []))[1].append(position)
        parts: list[tuple[Sequence[int], pa.Table]] = []
        for schema, positions in groups.values():
            keys = [records[i].key for i in positions]
            if schema is None:
                lines = [_dump(k if isinstance(k, dict) else {self._name_of_key(): k}, raw, 0) for k in keys]
                table = self._key_shape.parse(lines, None)
                parts.append((positions, table_of_struct(self._key_shape.column().from_json(_struct_of(table)))))
                continue
            if schema.type is not Type.STRUCT:
                keys = [{self._name_of_key(): k} for k in keys]
            parts.append((positions, table_of_struct(_convert(keys, self._key_column(schema), raw))))
        return scatter(parts, len(records))

    # -- what was learnt -------------------------------------------------------------------------------------------------

    def learnt(self) -> object:
        """What values without schema have told of their types so far, for :meth:`forget_since`."""
        return self.value_shape.state(), self._key_shape.state()

    def forget_since(self, learnt: Any) -> None:
        """Goes back to what was known then: from records that are refused nothing is learnt."""
        of_values, of_keys = learnt
        self.value_shape.restore(of_values)
        self._key_shape.restore(of_keys)

    def settle_form(self, values: Sequence[bytes | None]) -> None:
        """Settles whether values without schema are change events, by all of these: a few of them may be the wrong ones."""
        lines = [v for v in values if v is not None]
        if self.value_shape.envelope is None and lines and not self._value_schemas:
            self.value_shape.envelope = schema_inference.are_envelopes(lines)

    # -- schemas ---------------------------------------------------------------------------------------------------------

    def _form(self, schema: Schema) -> Form:
        # By identity, with the schema kept alive beside it so that no other can take its id.
        known = self._forms.get(id(schema))
        if known is None:
            known = self._forms[id(schema)] = (schema, form_of(schema))
        return known[1]

    def _key_column(self, schema: Schema) -> Column:
        known = self._key_columns.get(id(schema))
        if known is None:
            column = column_of(schema)
            if schema.type is not Type.STRUCT:
                column = struct_column([(self._name_of_key(), column)])
            known = self._key_columns[id(schema)] = (schema, column)
        return known[1]

    def _name_of_key(self) -> str:
        if self._key_name is None:
            raise DataError(
                f"topic {self.topic}: the record key is a single value without a name; set key.columns to a name for it"
            )
        return self._key_name


def form_of(schema: Schema) -> Form:
    """Whether values of this schema are change events, and what their rows are. Raises SchemaError."""
    if schema.type is not Type.STRUCT:
        return Form(False, struct_column([(SINGLE_FIELD, column_of(schema))]), single=True)
    names = set(schema.field_names)
    if (schema.name or "").endswith(".Envelope") or {"before", "after", "op", "source"} <= names:
        after = schema.field("after")
        if after is None or after.schema.type is not Type.STRUCT:
            raise SchemaError(f"envelope {schema.name} has no struct field 'after'")
        return Form(True, column_of(after.schema))
    return Form(False, column_of(schema))


def _require_operations(operations: pa.Array, raw: Raw, positions: Sequence[int]) -> None:
    if operations.null_count:
        at = pc.index(operations.is_null(), True).as_py()
        raise DataError(f"{_where(raw, positions[at])}: no op field; change events and other records share the topic")


def _image(table: pa.Table, operations: pa.Array) -> pa.Array:
    after = table["after"].combine_chunks()
    deletes = pc.equal(operations, DELETE)
    if not pc.any(deletes).as_py():
        return after
    return pc.if_else(deletes, table["before"].combine_chunks(), after)


def _struct_of(table: pa.Table) -> pa.Array:
    struct = table.to_struct_array()
    return struct.combine_chunks() if isinstance(struct, pa.ChunkedArray) else struct


def _columns(raw: Raw, sequence: int, positions: Sequence[int]) -> tuple[pa.Array, pa.Array, pa.Array]:
    partitions, offsets = pa.array(raw.partitions, pa.int32()), pa.array(raw.offsets, pa.int64())
    index = pa.array(positions, pa.int64())
    if len(positions) != len(raw.offsets):
        partitions, offsets = partitions.take(index), offsets.take(index)
    return pc.add(index, sequence), partitions, offsets


def _convert(values: list[Any], row: Column, raw: Raw) -> pa.Array:
    """Struct values to the row's table types. Raises DataError that names record and field."""
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
                raise DataError(f"{_where(raw, index)}: {_field_of(value, e)}{e}") from e
        raise DataError(f"topic {raw.topic}: {error}") from error


def _field_of(value: Any, error: Exception) -> str:
    """``field x: `` for the first field of a struct value that does not fit its own column."""
    schema = getattr(value, "schema", None)
    for member in getattr(schema, "fields", None) or ():
        column = column_of(member.schema)
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


def _where(raw: Raw, index: int) -> str:
    return f"topic {raw.topic}, partition {raw.partitions[index]}, offset {raw.offsets[index]}"


def _wrap(text: bytes, name: str) -> bytes:
    return b"{" + json.dumps(name).encode() + b":" + text + b"}"


def _partition(record: SinkRecord) -> int:
    return record.partition if record.original_partition is None else record.original_partition


def _field_in(error: Exception) -> str:
    """``field x: `` for the field that an error of Arrow's JSON reader names."""
    column = re.search(r"Column\(/?([^)]*)\)", str(error))
    return f"field {column.group(1).removeprefix('after/').removeprefix('before/')}: " if column else ""


def _dump(value: Any, raw: Raw, index: int) -> bytes:
    try:
        return schema_inference.dump(value)
    except (TypeError, ValueError) as e:
        name = schema_inference.misfit_of(value)
        what = f"a value without schema that JSON cannot hold: {e}; give the records a schema"
        raise DataError(f"{_where(raw, index)}: {'' if name is None else f'field {name}: '}{what}") from e
