"""What transformations share about structs: copied schemas, field values with defaults, and what the original demands of data."""

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
    """A struct of a struct schema, not checked; the list becomes its own."""
    struct = _new(Struct)
    struct.schema = schema
    struct.values = values
    return struct


def class_name_under(schema: Schema | None, value: Any) -> str:
    """The Java class of a value under a schema: the schema tells the width of a plain number."""
    # The maps that reach a transformation keep their order, as Java's LinkedHashMap does.
    return "java.util.LinkedHashMap" if isinstance(value, dict) else java_class_name_under(schema, value)


def require_struct(schema: Schema | None, value: Any, purpose: str) -> Struct:
    if not isinstance(value, Struct):
        raise DataError(f"Only Struct objects supported for [{purpose}], found: {class_name_under(schema, value)}")
    return value


def require_map(value: Any, purpose: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        found = class_name_under(None, value)
        raise DataError(f"Only Map objects supported in absence of schema for [{purpose}], found: {found}")
    return value


def fields_of(schema: Schema) -> tuple[Field, ...]:
    """The fields; a schema that is no struct has none to list."""
    if schema.fields is None:
        raise DataError("Cannot list fields on non-struct type")
    return schema.fields


def struct_schema_like(source: Schema | None, fields: Iterable[tuple[str, Schema]], **members: Any) -> Schema:
    """A struct schema with the name, version, doc and parameters of another, and other fields. Not optional, without a
    default, unless said. Raises SchemaError for a name that is empty or twice there."""
    checked: list[tuple[str, Schema]] = []
    names: set[str] = set()
    for name, schema in fields:
        if not name:
            raise SchemaError("fieldName cannot be null.")
        if name in names:
            raise SchemaError(f"Cannot create field because of field name duplication {name}")
        names.add(name)
        checked.append((name, schema))
    basics = {} if source is None else basics_of(source)
    return Schema(Type.STRUCT, fields=checked, **basics, **members)


def basics_of(schema: Schema) -> dict[str, Any]:
    """What a changed schema keeps of its origin."""
    return {"name": schema.name, "version": schema.version, "doc": schema.doc, "parameters": schema.parameters}


def null_error(name: str, schema: Schema) -> DataError:
    return DataError(f'Invalid value: null used for required field: "{name}", schema type: {schema.type.name}')


def settle_nulls(values: list[Any], fields: Sequence[Field], replace_null: bool, become: Sequence[Field] | None = None) -> None:
    """Puts defaults in place of nulls, in the list itself, and refuses a null that a field may not have. ``become`` are the
    fields that the values are for, where their schemas are others: errors name those."""
    for i, field in enumerate(fields):
        if values[i] is None:
            if replace_null:
                values[i] = field.schema.default
            if values[i] is None and not field.schema.optional:
                raise null_error(field.name, field.schema if become is None else become[i].schema)


NullTest = Callable[[list[Any]], bool]


def null_test(fields: Sequence[Field], replace_null: bool) -> NullTest | None:
    """Tells of the values of these fields if one is null where that matters: required, or with a default to take its place.
    None when it matters nowhere."""
    return null_test_at(
        [i for i, f in enumerate(fields) if not f.schema.optional or (replace_null and f.schema.default is not None)]
    )


def null_test_at(indexes: Sequence[int]) -> NullTest | None:
    """Tells if a list has None at one of these places; None when there are no places."""
    if not indexes:
        return None
    # One expression of index tests is twice as fast as any loop, and this runs for every struct. Only numbers go into it.
    expression = "lambda v: " + " or ".join(f"v[{i:d}] is None" for i in indexes)
    test: NullTest = evaluate(expression, title="null test")
    return test


def copier(
    fields: Sequence[Field], replace_null: bool, become: Sequence[Field] | None = None
) -> Callable[[list[Any]], list[Any]]:
    """Copies the values of these fields as ``Struct.get`` and ``Struct.put`` would, field by field: nulls settled. ``become``
    as in :func:`settle_nulls`."""
    has_null = null_test(fields, replace_null)
    if has_null is None:
        return list

    def copy(values: list[Any]) -> list[Any]:
        copied = values[:]
        if has_null(values):
            settle_nulls(copied, fields, replace_null, become)
        return copied

    return copy


def raise_first(
    values: list[Any],
    fields: Sequence[Field],
    replace_null: bool,
    changed: Schema,
    converters: Mapping[int, Callable[[Any], Any]],
) -> None:
    """Raises the error that the original meets first, which takes field by field: the null as it reads, the conversion of the
    field, if it has one, and the null that its new schema refuses. For values that are known to have an error."""
    for field, new in zip(fields, fields_of(changed), strict=True):
        value = values[field.index]
        if value is None and replace_null:
            value = field.schema.default
        if field.index in converters:
            value = converters[field.index](value)
        if value is None and not new.schema.optional:
            raise null_error(field.name, new.schema)


def read_field(struct: Struct, name: str, replace_null: bool) -> Any:
    """One value by name."""
    return struct.get(name) if replace_null else struct.get_without_default(name)


def struct_under(schema: Schema | None, value: Any, purpose: str) -> Struct:
    """The value as a struct of that schema. For what is not ``Struct`` with ``schema`` itself: converters look at that first."""
    struct = require_struct(schema, value, purpose)
    if struct.schema != schema:
        raise DataError(f"The struct for [{purpose}] has another schema than its record says: {struct.schema!r}, not {schema!r}")
    return struct
