"""The column path: decodes records whose keys and values are Arrow columns in stored types, as Spark SQL returns them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from connect.data.logical import LOGICAL_CLASSES
from connect.data.schema import Schema, Type
from connect.data.types import INT_RANGES
from connect.errors import DataError, SchemaError
from connectors.spark.decode.arrow_types import column_for_schema
from connectors.spark.decode.change_batch import DELETE, table_of_struct
from connectors.spark.decode.decoded_values import DecodedValues, plain_rows, tombstones
from connectors.spark.decode.layouts import SINGLE_FIELD, SchemaCache, detect_layout
from connectors.spark.decode.source_block import SourceBlock


@dataclass(frozen=True, slots=True)
class ColumnRecords:
    """Records of one partition, one schema of keys, and one of values, in the order of ``offsets``.

    ``keys`` and ``values`` are arrays in stored types (:mod:`connectors.spark.transforms.stored_types`), None if all are null.
    ``values`` has no nulls: records without a value are apart.
    """

    partition: int
    offsets: pa.Array
    key_schema: Schema | None
    keys: pa.Array | None
    value_schema: Schema | None
    values: pa.Array | None


class ColumnDecoder:
    """Decodes values of one topic. Raises DataError or Arrow's errors, which name no record."""

    def __init__(self, schemas: SchemaCache, source: SourceBlock) -> None:
        self._schemas = schemas
        self._source = source

    def decode(self, records: ColumnRecords) -> DecodedValues:
        """Decodes the values of all records."""
        positions = range(len(records.offsets))
        values, schema = records.values, records.value_schema
        if values is None or schema is None:
            return tombstones(positions)
        layout = self._schemas.layout(schema)
        if layout.single:
            values = pa.StructArray.from_arrays([values], [SINGLE_FIELD])
        if not layout.envelope:
            return replace(plain_rows(positions, layout.row.finish(values)), defaults=layout.defaults)
        operations = _member(schema, values, "op").cast(pa.string())
        if operations.null_count:
            raise DataError("a change event has no op")
        after = _member(schema, values, "after")
        deletes = pc.equal(operations, DELETE)
        image = pc.if_else(deletes, _member(schema, values, "before"), after) if pc.any(deletes).as_py() else after
        source = self._source.columns(self._source_blocks(schema, values))
        return DecodedValues(positions, operations, source, table_of_struct(layout.row.finish(image)), defaults=layout.defaults)

    def _source_blocks(self, schema: Schema, values: pa.Array) -> pa.Array:
        blocks = _member(schema, values, "source")
        field = schema.field("source")
        assert field is not None
        members = [
            pa.nulls(len(values), wanted.type)
            if field.schema.field(wanted.name) is None
            else _member(field.schema, blocks, wanted.name).cast(wanted.type)
            for wanted in self._source.type
        ]
        return pa.StructArray.from_arrays(members, fields=list(self._source.type))


def check_decodable(schema: Schema, stored: pa.DataType, source: SourceBlock) -> None:
    """Raises SchemaError unless values of the schema in the type ``stored`` can be decoded as columns."""
    layout = detect_layout(schema)
    if not layout.envelope:
        _check_stored(schema, stored)
        return
    before, after, op, block = (_require_field(schema, name) for name in ("before", "after", "op", "source"))
    _check_stored(after, stored.field(_index(schema, "after")).type)
    if before.type is not Type.STRUCT or before.fields != after.fields:
        raise SchemaError("the rows before and after a change have different schemas")
    if op.type is not Type.STRING or op.default is not None or block.type is not Type.STRUCT:
        raise SchemaError("op and source of the envelope have unusual types")
    for wanted in source.type:
        member = block.field(wanted.name)
        if member is None:
            continue
        kinds: Sequence[Type] = list(INT_RANGES) if pa.types.is_integer(wanted.type) else [Type.STRING]
        if member.schema.type not in kinds or member.schema.name in LOGICAL_CLASSES or member.schema.default is not None:
            raise SchemaError(f"field {wanted.name} of the source block has an unusual type")


def _check_stored(schema: Schema, stored: pa.DataType) -> None:
    if not _is_same_layout(column_for_schema(schema).stored, stored):
        raise SchemaError(f"a schema {schema.name or schema.type.value} has values of an unusual type")


def _is_same_layout(first: pa.DataType, second: pa.DataType) -> bool:
    """Whether two types are the same but for the names of fields."""
    if first.id != second.id or first.num_fields != second.num_fields:
        return False
    if not first.num_fields:
        return bool(first == second)
    return all(_is_same_layout(first.field(i).type, second.field(i).type) for i in range(first.num_fields))


def _require_field(schema: Schema, name: str) -> Schema:
    field = schema.field(name)
    if field is None:
        raise SchemaError(f"envelope {schema.name} has no field {name}")
    return field.schema


def _index(schema: Schema, name: str) -> int:
    field = schema.field(name)
    assert field is not None
    return field.index


def _member(schema: Schema, values: pa.Array, name: str) -> pa.Array:
    """A field of structs; null where the struct is."""
    return values.flatten()[_index(schema, name)]
