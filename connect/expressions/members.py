"""Reads what follows a dot or a bracket: fields of structs, entries of maps, elements of lists, and a few properties."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from connect.data.logical import FarInstant, epoch_millis
from connect.data.schema import Field, Schema
from connect.data.struct import Struct
from connect.expressions.dialect import Dialect, describe_kind
from connect.expressions.errors import EvaluationError
from connect.suggestions import did_you_mean

_FIELDS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class HeaderValue:
    """A header in an expression: ``header.name.value``, ``header.name.schema``."""

    schema: Schema | None
    value: Any


class JsonReader:
    """``new JsonSlurper()``."""


JSON_READER = JsonReader()


def read_schema_property(schema: Schema, name: str) -> Any:
    """Reads a property of a schema by its Java name. Raises KeyError."""
    match name:
        case "name" | "version" | "doc" | "parameters":
            return getattr(schema, name)
        case "type":
            return schema.type.name
        case "optional":
            return schema.optional
        case "fields":
            return list(schema.fields or ())
        case "keySchema":
            return schema.key_schema
        case "valueSchema":
            return schema.value_schema
        case "defaultValue":
            return schema.default
    raise KeyError(name)


def read_property(value: Any, name: str, dialect: Dialect) -> Any:
    """Reads ``value.name`` of a value that is not null. Raises EvaluationError."""
    if isinstance(value, Struct):
        return read_struct_field(value, name, missing_is_null=dialect.missing_is_null)
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, HeaderValue) and name in ("value", "schema"):
        return getattr(value, name)
    if name == "length" and isinstance(value, str | list):
        return len(value)
    if isinstance(value, Field) and name in ("name", "index", "schema"):
        return getattr(value, name)
    if isinstance(value, dt.date | dt.time | FarInstant) and name == "time":
        return epoch_millis(value)
    if isinstance(value, Schema):
        try:
            return read_schema_property(value, name)
        except KeyError:
            pass
    if dialect.missing_is_null and isinstance(value, str | list):
        return None
    raise EvaluationError(f"{describe(value)} has no property {name}")


def describe(value: Any) -> str:
    if isinstance(value, Schema):
        return "a schema"
    if isinstance(value, HeaderValue):
        return "a header (it has value and schema)"
    return describe_kind(value)


def read_struct_field(struct: Struct, name: Any, *, missing_is_null: bool) -> Any:
    """Reads a field, or its default if it is null."""
    index = struct.schema.index_of(name) if isinstance(name, str) else None
    if index is None or struct.schema.fields is None:
        if missing_is_null:
            return None
        raise unknown_field_error(struct.schema, name)
    value = struct.values[index]
    return struct.schema.fields[index].schema.default if value is None else value


def unknown_field_error(schema: Schema, name: Any) -> EvaluationError:
    names = schema.field_names
    hint = f" ({hint})" if (hint := did_you_mean(str(name), names)) else ""
    shown = ", ".join(names[:_FIELDS_SHOWN]) + (", ..." if len(names) > _FIELDS_SHOWN else "")
    return EvaluationError(f"the struct {schema.name or ''} has no field {name}{hint}; fields: {shown}".replace("  ", " "))


def read_index(value: Any, index: Any, dialect: Dialect) -> Any:
    """Reads ``value[index]`` of a value that is not null. Raises EvaluationError."""
    if isinstance(value, Struct):
        return read_struct_field(value, index, missing_is_null=dialect.missing_is_null)
    if isinstance(value, dict):
        return value.get(index) if isinstance(index, str | int) else None
    if isinstance(value, str | list):
        return _read_element(value, index, dialect)
    if isinstance(index, str):
        return read_property(value, index, dialect)
    if hasattr(value, "group") and isinstance(index, int):
        return value.group(index) if index else value.group()
    raise EvaluationError(f"{describe(value)} has no elements to read with brackets")


def _read_element(value: Any, index: Any, dialect: Dialect) -> Any:
    if isinstance(index, str) and index == "length":
        return len(value)
    if not isinstance(index, int) or isinstance(index, bool):
        if dialect.missing_is_null:
            return None
        raise EvaluationError(f"the index of a list or text must be an integer, not {describe_kind(index)}")
    if index < 0 and not dialect.missing_is_null:
        index += len(value)
    if 0 <= index < len(value):
        return value[index]
    if isinstance(value, str) and not dialect.missing_is_null:
        raise EvaluationError(f"index {index} is out of range; the text length is {len(value)}")
    return None


def contains(container: Any, member: Any, dialect: Dialect, equals: Any) -> bool:
    """``member in container``: an element of a list or range, a key of a map, or a field name of a struct."""
    if isinstance(container, list):
        return any(equals(member, one) for one in container)
    if isinstance(container, range):
        return isinstance(member, int) and not isinstance(member, bool) and member in container
    if isinstance(container, dict):
        return isinstance(member, str | int) and member in container
    if isinstance(container, Struct):
        return isinstance(member, str) and container.schema.index_of(member) is not None
    if container is None and not dialect.missing_is_null:
        return False
    hint = "; use .contains() to search text" if isinstance(container, str) else ""
    raise EvaluationError(f"in needs a list, map, or struct on its right side, not {describe_kind(container)}{hint}")
