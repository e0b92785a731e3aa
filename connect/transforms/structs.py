"""Struct operations that transformations share: copying schemas and values, filling nulls with defaults, checking types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from connect.data.java_class_names import java_class_name_under
from connect.data.schema import Field, Schema, Type
from connect.data.struct import Struct
from connect.errors import DataError, SchemaError
from connect.generated_code import evaluate

_new = object.__new__


def new_struct(schema: Schema, values: list[Any]) -> Struct:
    """Creates a struct without checks; it takes over the list."""
    struct = _new(Struct)
    struct.schema = schema
    struct.values = values
    return struct


def java_class_name(schema: Schema | None, value: Any) -> str:
    """The Java class name of a value under a schema, which determines the width of a plain number."""
    # Maps that reach a transformation are LinkedHashMaps in Apache.
    return "java.util.LinkedHashMap" if isinstance(value, dict) else java_class_name_under(schema, value)


def require_struct(schema: Schema | None, value: Any, purpose: str) -> Struct:
    if not isinstance(value, Struct):
        raise DataError(f"Only Struct objects supported for [{purpose}], found: {java_class_name(schema, value)}")
    return value


def require_map(value: Any, purpose: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        found = java_class_name(None, value)
        raise DataError(f"Only Map objects supported in absence of schema for [{purpose}], found: {found}")
    return value


def require_fields(schema: Schema) -> tuple[Field, ...]:
    """The fields of a struct schema. Raises DataError for other schemas."""
    if schema.fields is None:
        raise DataError("Cannot list fields on non-struct type")
    return schema.fields


def struct_schema_like(source: Schema | None, fields: Iterable[tuple[str, Schema]], **members: Any) -> Schema:
    """Creates a struct schema with other fields and the name, version, doc and parameters of ``source``. It is required and has
    no default unless ``members`` says so. Raises SchemaError for an empty or repeated name."""
    checked: list[tuple[str, Schema]] = []
    names: set[str] = set()
    for name, schema in fields:
        if not name:
            raise SchemaError("fieldName cannot be null.")
        if name in names:
            raise SchemaError(f"Cannot create field because of field name duplication {name}")
        names.add(name)
        checked.append((name, schema))
    basics = {} if source is None else schema_metadata(source)
    return Schema(Type.STRUCT, fields=checked, **basics, **members)


def schema_metadata(schema: Schema) -> dict[str, Any]:
    """The attributes that a changed schema keeps."""
    return {"name": schema.name, "version": schema.version, "doc": schema.doc, "parameters": schema.parameters}


def null_error(name: str, schema: Schema) -> DataError:
    return DataError(f'Invalid value: null used for required field: "{name}", schema type: {schema.type.name}')


def fill_nulls(
    values: list[Any], fields: Sequence[Field], replace_null: bool, target_fields: Sequence[Field] | None = None
) -> None:
    """Replaces nulls in the list by defaults. Raises DataError for a null in a required field; ``target_fields``, the fields that
    the values are for if their schemas differ, are named in the error."""
    for i, field in enumerate(fields):
        if values[i] is None:
            if replace_null:
                values[i] = field.schema.default
            if values[i] is None and not field.schema.optional:
                raise null_error(field.name, field.schema if target_fields is None else target_fields[i].schema)


NullTest = Callable[[list[Any]], bool]


def null_test(fields: Sequence[Field], replace_null: bool) -> NullTest | None:
    """Builds a test for a null in a field that is required, or has a default to replace it. None if there is no such field."""
    return null_test_at(
        [i for i, f in enumerate(fields) if not f.schema.optional or (replace_null and f.schema.default is not None)]
    )


def null_test_at(indexes: Sequence[int]) -> NullTest | None:
    """Builds a test for None at one of these indexes of a list. None if there are no indexes."""
    if not indexes:
        return None
    # One expression is twice as fast as a loop, and this runs for every struct. It contains only numbers.
    test: NullTest = evaluate("lambda v: " + " or ".join(f"v[{i:d}] is None" for i in indexes), title="null test")
    return test


def copier(
    fields: Sequence[Field], replace_null: bool, target_fields: Sequence[Field] | None = None
) -> Callable[[list[Any]], list[Any]]:
    """Builds a function that copies the values of these fields as ``Struct.get`` and ``Struct.put`` would: with nulls filled.
    ``target_fields`` is as in :func:`fill_nulls`."""
    has_null = null_test(fields, replace_null)
    if has_null is None:
        return list

    def copy(values: list[Any]) -> list[Any]:
        copied = values[:]
        if has_null(values):
            fill_nulls(copied, fields, replace_null, target_fields)
        return copied

    return copy


def raise_first_error(
    values: list[Any],
    fields: Sequence[Field],
    replace_null: bool,
    changed: Schema,
    converters: Mapping[int, Callable[[Any], Any]],
) -> None:
    """Raises the error that Apache raises first, for values that have at least one. Apache goes field by field: it fills a null,
    converts the value, and checks it against the new schema."""
    for field, new in zip(fields, require_fields(changed), strict=True):
        value = values[field.index]
        if value is None and replace_null:
            value = field.schema.default
        if field.index in converters:
            value = converters[field.index](value)
        if value is None and not new.schema.optional:
            raise null_error(field.name, new.schema)


def read_field(struct: Struct, name: str, replace_null: bool) -> Any:
    """Reads a field by name."""
    return struct.get(name) if replace_null else struct.get_without_default(name)


def require_struct_of(schema: Schema | None, value: Any, purpose: str) -> Struct:
    """Returns the value if it is a struct of an equal schema, else raises DataError. Callers check for the same schema first."""
    struct = require_struct(schema, value, purpose)
    if struct.schema != schema:
        raise DataError(f"The struct for [{purpose}] has another schema than its record says: {struct.schema!r}, not {schema!r}")
    return struct


def with_field_name(field: str, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wraps a conversion so that its errors name the field."""

    def convert_field(value: Any) -> Any:
        try:
            return convert(value)
        except DataError as e:
            e.in_field(field)
            raise

    return convert_field
