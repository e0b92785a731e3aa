"""The column path: decodes records whose keys and values are Arrow columns, as a spool has them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from connect.data.schema import Schema
from connectors.spark.decode.change_batch import DELETE
from connectors.spark.decode.decoded_values import DecodedValues, change_events, plain_rows, tombstones
from connectors.spark.decode.layouts import SINGLE_FIELD, SchemaCache
from connectors.spark.decode.source_block import SourceBlock


@dataclass(frozen=True, slots=True)
class ColumnRecords:
    """Records of one partition, one schema of keys, and one of values, in the order of ``offsets``.

    ``keys`` and ``values`` are arrays in the stored types of their schemas (``ColumnConversion.stored``), None if all are null.
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
        after = _member(schema, values, "after")
        deletes = pc.equal(operations, DELETE)
        image = pc.if_else(deletes, _member(schema, values, "before"), after) if pc.any(deletes).as_py() else after
        source = self._source.columns(self._source_blocks(schema, values))
        rows = layout.row.finish(image)
        found = change_events(positions, operations, source, rows, lambda at: f"offset {records.offsets[at]}")
        return replace(found, defaults=layout.defaults)

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


def _index(schema: Schema, name: str) -> int:
    field = schema.field(name)
    assert field is not None
    return field.index


def _member(schema: Schema, values: pa.Array, name: str) -> pa.Array:
    """A field of structs; null where the struct is."""
    return values.flatten()[_index(schema, name)]
