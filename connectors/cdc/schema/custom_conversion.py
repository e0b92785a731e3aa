"""Replaces schemas and values of columns by those of custom converters.

The conversion is part of the column's type, below masks and truncation, so whatever decodes a column applies it: snapshots, the
stream, and incremental snapshots have the same values, and keys too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from connect.change_events.custom_converters import ColumnConversion, RelationalColumn
from connect.data.logical import LOGICAL_CLASSES
from connect.data.schema import Schema, Type
from connect.data.struct import Struct, validate_value
from connect.errors import DataError
from connect.functions.user_code import FAILURES, UserCode
from connectors.cdc.config.converter_keys import NamedConverter
from connectors.cdc.schema.column_type import ColumnType, Decoder

log = logging.getLogger(__name__)

_CLASSES = {Type.BOOLEAN: bool, Type.STRING: str, Type.FLOAT64: float, Type.BYTES: bytes}
"""The classes whose values all fit a schema of the type without a logical name."""
_ZEROS: dict[Type, Any] = {
    **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32, Type.INT64), 0), Type.FLOAT32: 0.0, Type.FLOAT64: 0.0,
    Type.BOOLEAN: False, Type.STRING: "", Type.BYTES: b"", Type.ARRAY: [], Type.MAP: {},
}  # fmt: skip
_WITHOUT_DEFAULT = (Type.STRUCT, Type.ARRAY, Type.MAP)
"""Types of values that cannot be defaults (KAFKA-12694)."""


@dataclass(frozen=True, slots=True)
class CustomConversion:
    """What a converter makes of a column. ``schema`` is that of the field."""

    schema: Schema
    convert: Callable[[Any], Any]
    """Converts a value that is not None. Raises DataError."""
    zero: Any
    placeholder: Any

    def under(self, schema: Schema) -> CustomConversion:
        """Returns this conversion for a field with that schema (parameters of a rule)."""
        return replace(self, schema=schema)

    def apply(self, decode: Decoder) -> Decoder:
        """Returns the decoder whose values are converted."""
        convert, schema = self.convert, self.schema

        def decode_and_convert(data: Any) -> Any:
            value = decode(data)
            return None if value is None else convert(value)  # MySQL's 0000-00-00 is null

        def decode_struct(data: Any) -> Any:
            found = decode_and_convert(data)
            return None if found is None else Struct(schema, found.values)  # a struct must have the schema of its field

        return decode_struct if schema.type is Type.STRUCT else decode_and_convert

    def type_of(self, base: ColumnType) -> ColumnType:
        """Returns the mapping of the column in place of ``base``, its mapping without the converter."""
        return ColumnType(
            self.schema,
            self.apply(base.decode),
            Struct(self.schema, self.zero.values) if isinstance(self.zero, Struct) else self.zero,
            self.placeholder,
            rebuild=lambda schema: self.under(schema).type_of(base),
        )


def find_conversion(converters: Sequence[NamedConverter], column: RelationalColumn, base: ColumnType) -> CustomConversion | None:
    """Returns the conversion of the first converter that chooses a column; None if none does.

    ``base`` is the column's mapping without a converter, for the schema ``column.schema``. Raises DataError if a converter fails.
    """
    for named in converters:
        place = f"column {column.full_name}, converter {named.name}"
        found: Any
        try:
            found = named.converter.converter_for(column)
        except FAILURES as e:
            raise DataError(f"{place}: {named.code.failure(e, DataError).message}") from e
        if found is None:
            continue
        if not isinstance(found, ColumnConversion):
            returned = f"{named.code.name} returned a value of type {type(found).__name__}"
            raise DataError(f"{place}: converter_for of {returned}, expected ColumnConversion or None")
        # Methods of built-in classes have no module.
        code = UserCode.of(found.convert) if hasattr(found.convert, "__module__") else named.code
        return _bind(column, base, found, _checked(found, place, code), place)
    return None


def _bind(
    column: RelationalColumn, base: ColumnType, found: ColumnConversion, convert: Callable[[Any], Any], place: str
) -> CustomConversion:
    given, schema = column.schema, found.schema
    changes: dict[str, Any] = {"optional": schema.optional or given.optional}
    if schema.doc is None and given.doc is not None:
        changes["doc"] = given.doc
    if given.default is not None and schema.type not in _WITHOUT_DEFAULT:
        try:
            changes["default"] = convert(given.default)
        except DataError as e:
            log.warning("the default of %s is left out of its schema: %s", column.full_name, e.message)
    field = schema.replace(**changes)
    placeholder = base.placeholder if schema.type is given.type and schema.type in (Type.STRING, Type.BYTES) else None
    return CustomConversion(field, convert, _zero(place, field, convert, base.zero), placeholder)


def _zero(place: str, schema: Schema, convert: Callable[[Any], Any], zero: Any) -> Any:
    """The value of a required column that the log lacks: the converted zero of its type, or the zero of the schema."""
    try:
        return convert(zero)
    except DataError as e:
        found = _ZEROS.get(schema.type)
        try:
            validate_value(schema, found)
        except DataError:
            raise DataError(f"{place}: the function must accept {zero!r}, which stands for values that the log lacks") from e
        return found


def _checked(found: ColumnConversion, place: str, code: UserCode) -> Callable[[Any], Any]:
    """The function of a conversion, with errors that name column, converter, and line, and with results that fit the schema."""
    function, schema = found.convert, found.schema
    simple = None if schema.name in LOGICAL_CLASSES else _CLASSES.get(schema.type)

    def convert(value: Any) -> Any:
        try:
            result = function(value)
        except FAILURES as e:
            raise DataError(f"{place}: {code.failure(e, DataError).message}") from e
        if result.__class__ is not simple:
            try:
                validate_value(schema, result)
            except DataError as e:
                raise DataError(f"{place}: {e.message}") from e
        return result

    return convert
