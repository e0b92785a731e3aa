"""Projects values to a compatible schema: ``org.apache.kafka.connect.data.SchemaProjector`` (KIP-26).

For sinks that use one schema for records of several versions. Types must be equal, or numbers that widen (int8, int16, int32,
int64, float32, float64, each to a later one). Names and parameters must be equal; versions and docs may differ. Fields that the
target lacks are dropped; fields that the source lacks must be optional or have a default.
"""

from __future__ import annotations

from typing import Any

from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import SchemaError
from connect.java.numbers import integer_to_float32
from connect.java.sized_numbers import round_to_float32

_WIDENING = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
_RANK = {type: rank for rank, type in enumerate(_WIDENING)}


def project(source: Schema, value: Any, target: Schema) -> Any:
    """Returns the value under the target schema. Raises SchemaError for incompatible schemas, with the path in its causes.

    Elements of lists and maps are checked one by one, so that an empty list projects to any element schema. A null becomes the
    target's default only from an optional schema to a required one. Widening to a float rounds, like Java's casts.
    """
    _check_compatible(source, target)
    if source.optional and not target.optional:
        if target.default is None:
            raise SchemaError("Writer schema is optional, however, target schema does not provide a default value.")
        if value is None:
            return target.default
    if value is None:
        return None
    match target.type:
        case Type.STRUCT:
            return _project_struct(source, value, target)
        case Type.ARRAY:
            elements = _element_schema(source.value_schema), _element_schema(target.value_schema)
            return [project(elements[0], element, elements[1]) for element in value]
        case Type.MAP:
            keys = _element_schema(source.key_schema), _element_schema(target.key_schema)
            elements = _element_schema(source.value_schema), _element_schema(target.value_schema)
            return {project(keys[0], k, keys[1]): project(elements[0], v, elements[1]) for k, v in value.items()}
        case _:
            return _widened(value, target.type) if source.type is not target.type else value


def _check_compatible(source: Schema, target: Schema) -> None:
    if source.type is not target.type and not _widens(source.type, target.type):
        raise SchemaError(f"Schema type mismatch. source type: {source.type.name} and target type: {target.type.name}")
    if source.name != target.name:
        names = ["null" if name is None else name for name in (source.name, target.name)]
        raise SchemaError(f"Schema name mismatch. source name: {names[0]} and target name: {names[1]}")
    if source.parameters != target.parameters:
        raise SchemaError(
            f"Schema parameters not equal. source parameters: {_parameters_text(source)} "
            f"and target parameters: {_parameters_text(target)}"
        )


def _widens(source: Type, target: Type) -> bool:
    return source in _RANK and target in _RANK and _RANK[source] < _RANK[target]


def _parameters_text(schema: Schema) -> str:
    if schema.parameters is None:
        return "null"
    return f"{{{', '.join(f'{key}={value}' for key, value in schema.parameters.items())}}}"


def _element_schema(schema: Schema | None) -> Schema:
    if schema is None:
        raise SchemaError("The elements of a list or map cannot be projected: they have no schema")
    return schema


def _project_struct(source: Schema, value: Struct, target: Schema) -> Struct:
    projected = Struct(target)
    for field in target.fields or ():
        origin = source.field(field.name)
        if origin is not None:
            found = value.get(field.name)
            try:
                projected.put(field, project(origin.schema, found, field.schema))
            except SchemaError as e:
                raise SchemaError(f"Error projecting {field.name}") from e
        elif field.schema.optional:
            continue  # stays null, even if there is a default
        elif field.schema.default is not None:
            projected.put(field, field.schema.default)
        else:
            raise SchemaError(f"Required field `{field.name}` is missing from source schema: {source!r}")
    return projected


def _widened(value: Any, target: Type) -> Any:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value  # a logical type's value
    if target is Type.FLOAT32:
        return integer_to_float32(value) if isinstance(value, int) else round_to_float32(value)
    return float(value) if target is Type.FLOAT64 else value
