"""How data files have the columns of a schema: by the IDs of fields, whatever their names are there.

Format: "Schema Evolution" and "Column Projection" of Iceberg's specification. Files that were written without Iceberg have no
IDs; a name mapping of the table says which fields they have. A column that a file lacks has the value of its identity partition,
else its initial default, else null.
"""

from __future__ import annotations

import decimal
import json
import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from connect.errors import ConnectError
from connectors.spark.tables.files.file_columns import FIELD_ID, FileColumn, FileColumns, Values, field_id
from connectors.spark.tables.iceberg.defaults import default_value
from connectors.spark.tables.iceberg.types import INITIAL, PRIMITIVES, Json, arrow_type, file_field

NAME_MAPPING = "schema.name-mapping.default"


def file_columns(
    fields: Iterable[Json], properties: Mapping[str, str], primitives: Mapping[str, pa.DataType] = PRIMITIVES
) -> FileColumns:
    """These columns of a schema, of a table with these properties. Raises SchemaError for a type that is not among the
    primitives."""
    found = (FileColumn(f["name"], arrow_type(f["type"], f["name"], primitives), file_field(f, primitives)) for f in fields)
    return FileColumns(tuple(found), ById(properties.get(NAME_MAPPING)))


@dataclass(frozen=True, slots=True)
class ById:
    """Finds columns by their IDs (:class:`connectors.spark.tables.files.file_columns.ColumnLookup`)."""

    mapping: str | None
    """The name mapping of the table, as JSON."""

    def fields(self, schema: pa.Schema, path: str, values: Values) -> Iterable[pa.Field]:
        if not len(schema) or any(field_id(field) is not None for field in schema):
            return list(schema)
        if self.mapping is None:
            raise ConnectError(
                f"the file {path} has no field IDs, and the table has no property {NAME_MAPPING}. Set the property, or rewrite "
                "the file with Spark (CALL <catalog>.system.rewrite_data_files)"
            )
        mapping = json.loads(self.mapping)
        return [_mapped(field, mapping) for field in schema]

    def absent(self, field: pa.Field, type_: pa.DataType, values: Values) -> pa.Scalar | None:
        number = field_id(field)
        if number in values:
            return _partition_value(values[number], type_, field.name)
        default = (field.metadata or {}).get(INITIAL.encode())
        return None if default is None else default_value(json.loads(default), type_, field.name)


def identity_values(partition: Sequence[Any], spec: Json) -> dict[int, Any]:
    """By field ID: the values of columns that are the same in all rows of a partition."""
    fields = zip(spec.get("fields") or (), partition, strict=False)
    return {field["source-id"]: value for field, value in fields if field["transform"] == "identity"}


def _mapped(field: pa.Field, mapping: Iterable[Json]) -> pa.Field:
    """The field of a file without IDs, with those that a name mapping gives it and the fields in it."""
    known: Json = next((one for one in mapping if field.name in one["names"]), {})
    inner = known.get("fields") or ()
    type_, t = field.type, pa.types
    if t.is_struct(type_):
        type_ = pa.struct([_mapped(member, inner) for member in type_])
    elif t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
        type_ = pa.list_(_mapped(type_.value_field.with_name("element"), inner))
    elif t.is_map(type_):
        type_ = pa.map_(_mapped(type_.key_field.with_name("key"), inner), _mapped(type_.item_field.with_name("value"), inner))
    number = known.get("field-id")
    return pa.field(field.name, type_, field.nullable, None if number is None else {FIELD_ID: str(number).encode()})


@dataclass(frozen=True, slots=True)
class BinaryValue:
    """A value in Iceberg's binary form ("Binary single-value serialization" in its specification)."""

    data: bytes

    def read(self, type_: pa.DataType) -> pa.Scalar:
        """The value, of a column that may have got a wider type since."""
        t, data = pa.types, self.data
        if t.is_boolean(type_):
            return pa.scalar(data != b"\0", type_)
        if t.is_decimal(type_):
            unscaled = int.from_bytes(data, "big", signed=True)
            return pa.scalar(decimal.Decimal(f"{unscaled}E{-type_.scale}"), type_)
        if t.is_floating(type_):
            return pa.scalar(struct.unpack("<f" if len(data) == 4 else "<d", data)[0], type_)
        if t.is_integer(type_):
            return pa.scalar(int.from_bytes(data, "little", signed=True), type_)
        if t.is_temporal(type_):
            number = int.from_bytes(data, "little", signed=True)
            return pa.scalar(number, pa.int32() if t.is_date32(type_) else pa.int64()).cast(type_)
        return pa.scalar(data.decode() if t.is_string(type_) else data, type_)


def _partition_value(value: Any, type_: pa.DataType, column: str) -> pa.Scalar:
    """A value of a partition: in binary form, or as manifests have it, where dates and times are numbers."""
    t = pa.types
    if value is None:
        return pa.scalar(None, type_)
    if isinstance(value, BinaryValue):
        return value.read(type_)
    if t.is_floating(type_):
        return pa.scalar(float(value), type_)  # also of the text NaN
    if isinstance(value, str):
        return default_value(value, type_, column)
    if t.is_temporal(type_):
        return pa.scalar(value, pa.int32() if t.is_date32(type_) else pa.int64()).cast(type_)
    if t.is_string(type_):
        return pa.scalar(str(value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=value)))
    return pa.scalar(value, type_)
