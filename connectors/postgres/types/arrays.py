"""Arrays: the text form of any array type, and the Connect array of its elements."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from connect.change_events import toast
from connect.data.logical import DECIMAL, decimal_scale
from connect.data.schema import Schema, Type
from connectors.cdc.schema.column_type import ColumnType, refuse
from connectors.databases.postgresql.arrays import parse_array as parse_nested_array
from connectors.postgres.config import TypeSettings


def parse_array(text: str, delimiter: str = ",") -> list[str | None]:
    """``{a,"b,c",NULL}`` as a list of texts. Raises DataError for more than one dimension: Connect's arrays have one."""
    start = text.find("{")
    if start < 0 or text[-1] != "}":
        raise refuse(text, "array")
    body = text[start + 1 : -1]  # before it may stand bounds: [0:1]={1,2}
    if not body:
        return []
    if '"' not in body and "\\" not in body:
        if "{" in body:
            raise refuse(text, "array of one dimension")
        return [None if part == "NULL" else part for part in body.split(delimiter)]
    values, dimensions = parse_nested_array(text[start:], str, delimiter)
    if dimensions != 1:
        raise refuse(text, "array of one dimension")
    return values


def array_of(element: ColumnType, placeholder: Any, delimiter: str = ",") -> ColumnType:
    """The array of optional elements."""
    element = element.under(element.schema.as_optional())
    decode: Callable[[str], Any] = element.decode

    def decode_array(text: str) -> list[Any]:
        return [None if part is None else decode(part) for part in parse_array(text, delimiter)]

    schema = Schema(Type.ARRAY, value_schema=element.schema.as_optional())
    return ColumnType(schema, decode_array, [], placeholder)


def array_without_nulls(element: ColumnType, placeholder: Any, schema: Schema | None = None) -> ColumnType:
    """The array of required elements. One that has a NULL becomes null as a whole, and is refused in a required column."""
    schema = schema or Schema(Type.ARRAY, value_schema=element.schema)
    is_optional = schema.optional

    def decode_array(text: str) -> list[Any] | None:
        parts = parse_array(text)
        if None not in parts:
            return [element.decode(part) for part in parts if part is not None]
        if is_optional:
            return None
        raise refuse(text, "array without NULL, which enum_array_nulls of restore.debezium.events needs in a NOT NULL column")

    rebuild = partial(array_without_nulls, element, placeholder)
    return ColumnType(schema, decode_array, [], placeholder, rebuild=rebuild)


def placeholder_of(element: ColumnType, type_name: str, settings: TypeSettings) -> list[Any] | None:
    """What stands for an unchanged TOASTed array: the placeholder in the form that the elements can take.

    Text and bytes are one element; numbers are the bytes of the placeholder one by one, as Debezium has them. None where the
    elements can hold neither.
    """
    if type_name == "uuid":
        return [toast.uuid_form(settings.placeholder)]
    if element.placeholder is not None:
        return [element.placeholder]
    schema = element.schema
    if schema.name == DECIMAL:
        return toast.decimal_form(settings.placeholder, decimal_scale(schema))
    match schema.type:
        case Type.STRING:
            return [settings.placeholder]
        case Type.INT16 | Type.INT32 | Type.INT64 if isinstance(element.zero, int):
            return list(toast.number_form(settings.placeholder))
        case Type.FLOAT32 | Type.FLOAT64:
            return [float(byte) for byte in toast.number_form(settings.placeholder)]
    return None
