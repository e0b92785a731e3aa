"""What a dot or a bracket reads: fields of structs, entries of maps, members of lists, and a few properties."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from connect.data.logical import FarInstant, epoch_millis
from connect.data.schema import Field, Schema
from connect.data.struct import Struct
from connect.expressions.dialect import Dialect, kind_of
from connect.expressions.errors import EvaluationError
from connect.suggestions import did_you_mean

_FIELDS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class HeaderValue:
    """A header as an expression sees it: ``header.name.value``, ``header.name.schema``."""

    schema: Schema | None
    value: Any


class JsonReader:
    """``new JsonSlurper()``."""


JSON_READER = JsonReader()


def schema_property(schema: Schema, name: str) -> Any:
    """A property of a schema, by its Java name. Raises KeyError."""
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
    """``value.name`` of a value that is not null. Raises EvaluationError."""
    if isinstance(value, Struct):
        return struct_field(value, name, missing_is_null=dialect.missing_is_null)
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
            return schema_property(value, name)
        except KeyError:
            pass
    if dialect.missing_is_null and isinstance(value, str | list):
        return None
    raise EvaluationError(f"{described(value)} has no property {name}")


def described(value: Any) -> str:
    if isinstance(value, Schema):
        return "a schema"
    if isinstance(value, HeaderValue):
        return "a header (it has value and schema)"
    return kind_of(value)


def struct_field(struct: Struct, name: Any, *, missing_is_null: bool) -> Any:
    """A field, or its default where it is null and has one."""
    index = struct.schema.index_of(name) if isinstance(name, str) else None
    if index is None or struct.schema.fields is None:
        if missing_is_null:
            return None
        raise unknown_field(struct.schema, name)
    value = struct.values[index]
    return struct.schema.fields[index].schema.default if value is None else value


def unknown_field(schema: Schema, name: Any) -> EvaluationError:
    names = schema.field_names
    hint = did_you_mean(str(name), names, "; ")
    shown = ", ".join(names[:_FIELDS_SHOWN]) + (", ..." if len(names) > _FIELDS_SHOWN else "")
    return EvaluationError(f"the struct {schema.name or ''} has no field {name}{hint} It has: {shown}".replace("  ", " "))


def read_index(value: Any, index: Any, dialect: Dialect) -> Any:
    """``value[index]`` of a value that is not null. Raises EvaluationError."""
    if isinstance(value, Struct):
        return struct_field(value, index, missing_is_null=dialect.missing_is_null)
    if isinstance(value, dict):
        return value.get(index) if isinstance(index, str | int) else None
    if isinstance(value, str | list):
        return _member(value, index, dialect)
    if isinstance(index, str):
        return read_property(value, index, dialect)
    if hasattr(value, "group") and isinstance(index, int):
        return value.group(index) if index else value.group()
    raise EvaluationError(f"{described(value)} has no members that a bracket could read")


def _member(value: Any, index: Any, dialect: Dialect) -> Any:
    if isinstance(index, str) and index == "length":
        return len(value)
    if not isinstance(index, int) or isinstance(index, bool):
        if dialect.missing_is_null:
            return None
        raise EvaluationError(f"the index of a list or text is a whole number, not {kind_of(index)}")
    if index < 0 and not dialect.missing_is_null:
        index += len(value)
    if 0 <= index < len(value):
        return value[index]
    if isinstance(value, str) and not dialect.missing_is_null:
        raise EvaluationError(f"the text of {len(value)} characters has none at {index}")
    return None


def contains(container: Any, member: Any, dialect: Dialect, equals: Any) -> bool:
    """``member in container``: a member of a list or range, a key of a map, the name of a struct's field."""
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
    hint = "; a text is searched with .contains()" if isinstance(container, str) else ""
    raise EvaluationError(f"in needs a list, map or struct on its right, not {kind_of(container)}{hint}")
