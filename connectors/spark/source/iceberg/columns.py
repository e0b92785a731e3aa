"""The columns of a schema, and how data files have them: by the IDs of fields, whatever their names and types are there.

Format: "Schema Evolution" and "Column Projection" of Iceberg's specification. A column that a file lacks has the value of its
identity partition, else its initial default, else null.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from connect.errors import ConnectError, DataError, SchemaError
from connectors.spark.decode.arrow_casts import as_array
from connectors.spark.decode.variant import is_variant
from connectors.spark.plan.stored_variants import stored_variants
from connectors.spark.source.errors import UnsupportedTableError
from connectors.spark.source.iceberg.metadata import Json, TableMetadata
from connectors.spark.source.table_feed import TableColumn, TableSchema
from connectors.spark.source.types import column_schema
from connectors.spark.tables.files.live_files import LiveFile
from connectors.spark.tables.iceberg.defaults import INITIAL, default_value
from connectors.spark.tables.iceberg.types import FIELD_ID, PRIMITIVES, arrow_type

NAME_MAPPING = "schema.name-mapping.default"
_PRIMITIVES = {
    **PRIMITIVES,
    # UUIDs are texts in the rows that are read.
    "uuid": pa.uuid(),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
}
_INT, _LONG = pa.int32(), pa.int64()


def table_schema(schema: Json, name: str) -> TableSchema:
    """The columns of a schema. Raises UnsupportedTableError for a type that no record can hold."""
    columns = []
    for field in schema["fields"]:
        try:
            type_ = arrow_type(field["type"], field["name"], _PRIMITIVES)
            column_schema(type_)
        except SchemaError as e:
            raise UnsupportedTableError(
                f"column {field['name']} of table {name} cannot be read: {e}. Write a table without the column, or with another "
                "type (CAST, to_json), with Spark, and read that"
            ) from e
        columns.append(TableColumn(field["name"], type_, not field.get("required")))
    return TableSchema(tuple(columns))


@dataclass(frozen=True)
class IcebergColumns:
    """Columns of a schema (:class:`connectors.spark.source.file_rows.FileColumns`)."""

    fields: tuple[Json, ...]
    """Of the schema."""
    metadata: TableMetadata
    table: str
    """Its name in messages."""

    def only(self, names: Iterable[str]) -> IcebergColumns:
        """Only the columns of these names."""
        wanted = set(names)
        return IcebergColumns(tuple(f for f in self.fields if f["name"] in wanted), self.metadata, self.table)

    def names(self, schema: pa.Schema, file: LiveFile) -> Sequence[str]:
        ids = {field["id"] for field in self.fields}
        return [stored.name for stored in self._with_ids(schema, file) if field_id(stored) in ids]

    def complete(self, rows: pa.Table, schema: pa.Schema, file: LiveFile) -> pa.Table:
        stored = {field_id(field): field for field in self._with_ids(schema, file)}
        count = rows.num_rows
        found = {}
        for field in self.fields:
            here = stored.get(field["id"])
            try:
                if here is None:
                    array = self._absent(field, file, count)
                else:
                    array = _read(as_array(rows[here.name]), here, field["type"])
            except (pa.ArrowException, SchemaError, DataError) as e:
                raise ConnectError(
                    f"column {field['name']} of the file {file.path} cannot be read as {field['type']}: {e}. Rewrite the file "
                    "with Spark (CALL <catalog>.system.rewrite_data_files)"
                ) from e
            found[field["name"]] = pa.chunked_array([array])
        return pa.table(found)

    def _absent(self, field: Json, file: LiveFile, count: int) -> pa.Array:
        values = file.entry.get("values") or {}
        if field["id"] in values:
            return pa.repeat(_partition_value(values[field["id"]], field["type"], field["name"]), count)
        return _missing(field, count)

    def _with_ids(self, schema: pa.Schema, file: LiveFile) -> Iterable[pa.Field]:
        if any(field_id(field) is not None for field in schema) or not len(schema):
            return list(schema)
        if self._mapping is None:
            raise UnsupportedTableError(
                f"the file {file.path} of table {self.table} has no field IDs, and the table has no property {NAME_MAPPING}. Set "
                "the property, or rewrite the file with Spark (CALL <catalog>.system.rewrite_data_files)"
            )
        return [_mapped(field, self._mapping) for field in schema]

    @cached_property
    def _mapping(self) -> list[Json] | None:
        text = self.metadata.properties.get(NAME_MAPPING)
        return None if text is None else json.loads(text)


def columns_of(schema: Json, metadata: TableMetadata, table: str) -> IcebergColumns:
    """All columns of a schema."""
    return IcebergColumns(tuple(schema["fields"]), metadata, table)


def identity_values(partition: Sequence[Any], spec: Json) -> dict[int, Any]:
    """By field ID: the values of columns that are the same in all rows of a partition."""
    fields = zip(spec.get("fields") or (), partition, strict=False)
    return {field["source-id"]: value for field, value in fields if field["transform"] == "identity"}


def field_id(field: pa.Field) -> int | None:
    """The ID of a file's field; None if the file's writer did not know Iceberg."""
    found = (field.metadata or {}).get(FIELD_ID)
    return None if found is None else int(found)


def _mapped(field: pa.Field, mapping: Iterable[Json]) -> pa.Field:
    """The field of a file without IDs, with those that a name mapping gives it and the fields in it."""
    known = next((one for one in mapping if field.name in one["names"]), None)
    if known is None:
        return field
    inner = known.get("fields") or ()
    type_ = field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([_mapped(member, inner) for member in type_])
    elif pa.types.is_list(type_) or pa.types.is_large_list(type_):
        type_ = pa.list_(_mapped(type_.value_field.with_name("element"), inner))
    elif pa.types.is_map(type_):
        type_ = pa.map_(_mapped(type_.key_field.with_name("key"), inner), _mapped(type_.item_field.with_name("value"), inner))
    number = known.get("field-id")
    return pa.field(field.name, type_, field.nullable, None if number is None else {FIELD_ID: str(number).encode()})


def _read(array: pa.Array, stored: pa.Field, node: str | Json) -> pa.Array:
    """A column or nested field of a file as the schema has it. ``stored`` says what the file has, with IDs."""
    if isinstance(node, str):
        return _leaf(array, node)
    t = pa.types
    if t.is_large_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    if array.offset and not t.is_struct(array.type):
        array = pa.concat_arrays([array.slice(0, 0), array])  # starts at 0
    mask = array.is_null() if array.null_count else None
    if node["type"] == "struct":
        places = {field_id(member): place for place, member in enumerate(stored.type)}
        parts, fields = [], []
        for member in node["fields"]:
            place = places.get(member["id"])
            if place is None:
                part = _missing(member, len(array))
            else:
                part = _read(array.field(place), stored.type.field(place), member["type"])
            parts.append(part)
            fields.append(pa.field(member["name"], part.type))
        return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)
    if node["type"] == "list":
        values = _read(array.values, stored.type.value_field, node["element"])
        return pa.ListArray.from_arrays(array.offsets, values, mask=mask)
    keys = _read(array.keys, stored.type.key_field, node["key"])
    items = _read(array.items, stored.type.item_field, node["value"])
    return pa.MapArray.from_arrays(array.offsets, keys, items, mask=mask)


def _leaf(array: pa.Array, name: str) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if name == "uuid":
        return _uuid_texts(array)
    if name == "variant":
        return stored_variants(array)
    type_ = arrow_type(name, "", _PRIMITIVES)
    if pa.types.is_fixed_size_binary(array.type) and pa.types.is_binary(type_):
        return array.cast(pa.binary())
    return array if array.type == type_ else array.cast(type_)


def _uuid_texts(array: pa.Array) -> pa.Array:
    found = [None if value is None else str(uuid.UUID(bytes=value)) for value in array.to_pylist()]
    return pa.array(found, pa.string())


def _missing(field: Json, count: int) -> pa.Array:
    """A column or nested field that a file lacks."""
    type_ = _row_type(arrow_type(field["type"], field["name"], _PRIMITIVES))
    if field.get(INITIAL) is None:
        return pa.nulls(count, type_)
    return pa.repeat(default_value(field[INITIAL], type_, field["name"]), count)


def _row_type(type_: pa.DataType) -> pa.DataType:
    """The type that rows have for one of the schema."""
    t = pa.types
    if type_ == pa.uuid():
        return pa.string()
    if is_variant(type_):
        return type_
    if t.is_struct(type_):
        return pa.struct([pa.field(f.name, _row_type(f.type)) for f in type_])
    if t.is_list(type_):
        return pa.list_(_row_type(type_.value_type))
    if t.is_map(type_):
        return pa.map_(_row_type(type_.key_type), _row_type(type_.item_type))
    return type_


def _partition_value(value: Any, name: str, column: str) -> pa.Scalar:
    """A value of a manifest's partition tuple, in which dates and times are numbers."""
    type_ = _row_type(arrow_type(name, column, _PRIMITIVES))
    t = pa.types
    if value is None:
        return pa.scalar(None, type_)
    if name == "uuid":
        return pa.scalar(str(value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=value)))
    if t.is_temporal(type_) and isinstance(value, int):
        return pa.scalar(value, _INT if t.is_date32(type_) else _LONG).cast(type_)
    return pa.scalar(float(value) if t.is_floating(type_) else value, type_)
