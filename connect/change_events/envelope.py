"""Recognizes and reads change events, as structs and as schemaless maps."""

from __future__ import annotations

from typing import Any

from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connect.transforms.structs import new_struct, null_error, require_fields, require_struct_of

BEFORE, AFTER, SOURCE, OPERATION, TRANSACTION = "before", "after", "source", "op", "transaction"
CREATE, UPDATE, DELETE, READ, TRUNCATE = "c", "u", "d", "r", "t"
_OPERATIONS = frozenset((CREATE, UPDATE, DELETE, READ, TRUNCATE))
_SUFFIX = ".Envelope"


def is_envelope_schema(schema: Schema | None) -> bool:
    """Returns whether the schema is an envelope, according to its name."""
    return schema is not None and schema.name is not None and schema.name.endswith(_SUFFIX)


def is_envelope_map(schema: Schema | None, value: Any) -> bool:
    """Returns whether a schemaless value is a change event: it has the operation, the source block, and one of the two rows."""
    return (
        schema is None
        and isinstance(value, dict)
        and value.get(OPERATION) in _OPERATIONS
        and isinstance(value.get(SOURCE), dict)
        and (BEFORE in value or AFTER in value)
    )


def envelope_struct(schema: Schema, value: Any) -> Struct:
    """Returns the value as a struct of its schema. Raises DataError."""
    if value.__class__ is Struct and value.schema is schema:
        struct: Struct = value
        return struct
    return require_struct_of(schema, value, "reading a change event")


def renamed_struct(schema: Schema, name: str) -> Schema:
    """Returns the struct schema with another name and without its default, which has the old name. Raises DataError for another
    type."""
    require_fields(schema)
    return schema.replace(name=name, default=None)


def under_schema(struct: Struct, schema: Schema) -> Struct:
    """Returns the values under a schema with the same fields; further fields at its end are null. Raises DataError for a null in
    a required field."""
    fields = require_fields(schema)
    values = [*struct.values, *[None] * (len(fields) - len(struct.values))]
    for value, field in zip(values, fields, strict=True):
        if value is None and not field.schema.optional:
            raise null_error(field.name, field.schema)
    return new_struct(schema, values)


def text_field(struct: Struct, name: str, purpose: str, *, or_default: bool = False) -> str | None:
    """Returns a text field of a struct; as in Java, a null is not replaced by the default unless requested. Raises DataError when
    there is no such field, or it has another type."""
    field = struct.schema.field(name)
    if field is None:
        raise DataError(f"There is no field {name} for [{purpose}]; there are: {', '.join(struct.schema.field_names)}")
    if field.schema.type is not Type.STRING:
        raise DataError(f"The field {name} for [{purpose}] is of type {field.schema.type.name}, and STRING is needed")
    text: str | None = struct.get(field) if or_default else struct.values[field.index]
    return text
