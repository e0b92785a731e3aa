"""Arrow batches in the stored types of :mod:`connectors.spark.transforms.stored_types`."""

from __future__ import annotations

import pyarrow as pa

from connect.data.schema import Schema
from connectors.spark.transforms.stored_types import field_name


def physical_schema(schema: Schema) -> Schema:
    """The schema without the names that give values another type in tables: its columns have the stored types."""
    members = {} if schema.fields is None else {"fields": [(f.name, physical_schema(f.schema)) for f in schema.fields]}
    key, value = schema.key_schema, schema.value_schema
    return schema.replace(
        name=None,
        key_schema=None if key is None else physical_schema(key),
        value_schema=None if value is None else physical_schema(value),
        **members,
    )


def with_positions(array: pa.Array) -> pa.Array:
    """The same values, with fields of structs named by their position."""
    return array if (renamed := _renamed(array.type)) == array.type else _cast(array, renamed)


def _renamed(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([(field_name(i), _renamed(f.type)) for i, f in enumerate(kind)])
    if pa.types.is_map(kind):
        return pa.map_(_renamed(kind.key_type), _renamed(kind.item_type))
    return pa.list_(_renamed(kind.value_type)) if pa.types.is_list(kind) else kind


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    # A view: the layout of the buffers stays.
    return array.view(kind)
