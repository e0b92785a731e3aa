"""Iceberg's schemas as Arrow columns, and the other way around.

Format: "Schemas" in appendix C of Iceberg's specification. Readers find columns by the IDs of fields, never by their names.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from connect.errors import SchemaError
from connectors.spark.decode.variant import VARIANT, is_variant
from connectors.spark.plan.evolution import Columns, sql_type
from connectors.spark.tables.files.file_columns import FIELD_ID

Json = Mapping[str, Any]
INITIAL = "initial-default"

PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
    "uuid": pa.binary(16),
    "variant": VARIANT,
}
_NAMES = {type_: name for name, type_ in PRIMITIVES.items() if name != "uuid"} | {pa.int8(): "int", pa.int16(): "int"}


def read_columns(schema: Json) -> Columns:
    """The columns of a table. Raises SchemaError for a type that the sink cannot write."""
    try:
        return {field["name"]: arrow_type(field["type"], field["name"]) for field in schema["fields"]}
    except SchemaError as e:
        raise SchemaError(f"{e}; write into another table") from e


def arrow_type(node: str | Json, path: str, primitives: Mapping[str, pa.DataType] = PRIMITIVES) -> pa.DataType:
    """The Arrow type of a column's or nested field's type. Raises SchemaError, which names the path, for one that is not among
    the primitives."""
    if isinstance(node, str):
        if node in primitives:
            return primitives[node]
        if found := re.fullmatch(r"decimal\((\d+), ?(\d+)\)", node):
            return pa.decimal128(int(found.group(1)), int(found.group(2)))
        if found := re.fullmatch(r"fixed\[(\d+)\]", node):
            return pa.binary(int(found.group(1)))
        raise SchemaError(f"column {path} has the type {node}, which is not supported")
    if node["type"] == "struct":
        return pa.struct([pa.field(f["name"], arrow_type(f["type"], f"{path}.{f['name']}", primitives)) for f in node["fields"]])
    if node["type"] == "list":
        return pa.list_(arrow_type(node["element"], f"{path}.element", primitives))
    key, value = (arrow_type(node[part], f"{path}.{part}", primitives) for part in ("key", "value"))
    return pa.map_(key, value)


def new_schema(columns: Columns) -> Json:
    """The schema of a new table with these columns. Raises SchemaError for a type that Iceberg lacks."""
    ids = itertools.count(1)
    return {"type": "struct", "schema-id": 0, "fields": [_field(name, type_, next(ids), ids) for name, type_ in columns.items()]}


def _field(name: str, type_: pa.DataType, number: int, ids: Iterator[int]) -> Json:
    return {"id": number, "name": name, "required": False, "type": _json_type(type_, ids)}


def _json_type(type_: pa.DataType, ids: Iterator[int]) -> str | Json:
    t = pa.types
    if t.is_struct(type_) and not is_variant(type_):
        numbers = [next(ids) for _ in type_]
        return {"type": "struct", "fields": [_field(f.name, f.type, n, ids) for f, n in zip(type_, numbers, strict=True)]}
    if t.is_list(type_):
        number = next(ids)
        return {"type": "list", "element-id": number, "element-required": False, "element": _json_type(type_.value_type, ids)}
    if t.is_map(type_):
        key, value = next(ids), next(ids)
        return {
            "type": "map",
            "key-id": key,
            "key": _json_type(type_.key_type, ids),
            "value-id": value,
            "value-required": False,
            "value": _json_type(type_.item_type, ids),
        }
    return primitive_name(type_)


def primitive_name(type_: pa.DataType) -> str:
    """The name of a primitive type. Raises SchemaError if Iceberg has no such type."""
    if type_ in _NAMES:
        return _NAMES[type_]
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision}, {type_.scale})"
    raise SchemaError(f"Iceberg has no column type for {sql_type(type_)}")


def as_stored(columns: Columns) -> Columns:
    """Columns with the types that Iceberg has for them: it has no integers below 32 bits."""
    return read_columns(new_schema(columns))


def file_schema(schema: Json, names: list[str]) -> pa.Schema:
    """The Arrow schema of a data file with these columns of a table, with the IDs of all fields."""
    by_name = {field["name"]: field for field in schema["fields"]}
    return pa.schema([file_field(by_name[name]) for name in names])


def file_field(field: Json, primitives: Mapping[str, pa.DataType] = PRIMITIVES) -> pa.Field:
    """A column or nested field as data files have it, with the IDs and initial defaults of all fields. Raises SchemaError for a
    type that is not among the primitives."""
    found = _with_id(field["name"], _file_type(field["type"], field["name"], primitives), field["id"])
    if field.get(INITIAL) is None:
        return found
    return found.with_metadata({**found.metadata, INITIAL.encode(): json.dumps(field[INITIAL]).encode()})


def _with_id(name: str, type_: pa.DataType, number: int, *, nullable: bool = True) -> pa.Field:
    return pa.field(name, type_, nullable, {FIELD_ID: str(number).encode()})


def _file_type(node: str | Json, path: str, primitives: Mapping[str, pa.DataType]) -> pa.DataType:
    if isinstance(node, str):
        return arrow_type(node, path, primitives)
    if node["type"] == "struct":
        return pa.struct([file_field(f, primitives) for f in node["fields"]])
    if node["type"] == "list":
        return pa.list_(_with_id("element", _file_type(node["element"], path, primitives), node["element-id"]))
    key = _with_id("key", _file_type(node["key"], path, primitives), node["key-id"], nullable=False)
    return pa.map_(key, _with_id("value", _file_type(node["value"], path, primitives), node["value-id"]))
