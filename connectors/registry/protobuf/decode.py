"""Decodes messages to Connect values, with functions built once per schema."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from google.protobuf.descriptor import Descriptor

from connect.data.logical import DATE, DECIMAL, TIME, TIMESTAMP, FarInstant, bytes_to_decimal, date_of, instant_of
from connect.data.schema import Field, Schema, Type
from connect.data.struct import Struct
from connect.data.types import INT_RANGES
from connect.errors import DataError, SchemaError
from connect.java.calendar import date_of_day, day_of_date
from connect.java.sized_numbers import wrap_integer
from connectors.registry.protobuf.config import WRAPPED, ProtobufConfig
from connectors.registry.protobuf.to_connect import Member, has_presence, members, real_oneofs, union_field
from connectors.registry.values import within_field

Read = Callable[[Any], Any]
"""Converts a message or a plain value to a Connect value. Raises DataError."""
_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_MILLION = 1_000_000


def compile_reader(message: Descriptor, schema: Schema, options: ProtobufConfig) -> Read:
    """Builds the reader of a message type."""
    if schema.type is not Type.STRUCT:
        inner = _plain(schema, options)
        return lambda found: inner(found.value)
    return _struct(message, schema, options)


def _struct(message: Descriptor, schema: Schema, options: ProtobufConfig) -> Read:
    every = members(message)
    cells: list[tuple[str, Read]] = []
    if not options.flatten_unions:
        for oneof in real_oneofs(message):
            field = _required(schema, union_field(oneof, options))
            inside = [m for m in every if m.in_oneof and m.declared.oneof_index == oneof.index]
            cells.append((field.name, _union(oneof.name, inside, field.schema, options)))
    for field in (schema.fields or ())[len(cells) :]:
        member = next(m for m in every if m.descriptor.name == field.name)
        cells.append((field.name, _member(member, message, field.schema, options)))

    def read(found: Any) -> Struct:
        values = []
        for name, cell in cells:
            try:
                values.append(cell(found))
            except DataError as e:
                raise within_field(name, e) from e
        return Struct(schema, values)

    return read


def _required(schema: Schema, name: str) -> Field:
    field = schema.field(name)
    if field is None:
        raise SchemaError(f"the schema has no field {name}")
    return field


def _union(name: str, inside: list[Member], schema: Schema, options: ProtobufConfig) -> Read:
    reads = {
        m.descriptor.name: (i, _element(m, f.schema, options))
        for i, (m, f) in enumerate(zip(inside, schema.fields or (), strict=True))
    }
    width = len(reads)

    def read(found: Any) -> Struct | None:
        which = found.WhichOneof(name)
        if which is None:
            return None
        position, inner = reads[which]
        values: list[Any] = [None] * width
        values[position] = inner(getattr(found, which))
        return Struct(schema, values)

    return read


def _member(member: Member, message: Descriptor, schema: Schema, options: ProtobufConfig) -> Read:
    """Builds the reader of one field of a message."""
    name = member.descriptor.name
    if member.is_map:
        return _map(name, member, schema, options)
    if member.is_repeated:
        if schema.value_schema is None:
            raise SchemaError("an array without the schema of its elements")
        inner = _element(member, schema.value_schema, options)
        return lambda found: [inner(one) for one in getattr(found, name)]
    inner = _element(member, schema, options)
    is_message = member.descriptor.message_type is not None
    if (is_message and not options.generate_struct_for_nulls) or member.in_oneof or has_presence(member, message, options):
        return lambda found: inner(getattr(found, name)) if found.HasField(name) else None
    return lambda found: inner(getattr(found, name))


def _map(name: str, member: Member, schema: Schema, options: ProtobufConfig) -> Read:
    entry = member.descriptor.message_type
    key, value = members(entry)
    if schema.key_schema is None or schema.value_schema is None:
        raise SchemaError("a map without the schemas of its keys and values")
    if entry.GetOptions().map_entry:
        read_key = _element(key, schema.key_schema, options)
        read_value = _element(value, schema.value_schema, options)

        def read_native(found: Any) -> dict[Any, Any]:
            items = getattr(found, name)
            return {read_key(k): read_value(items[k]) for k in items}

        return read_native
    of_key = _member(key, entry, schema.key_schema, options)
    of_value = _member(value, entry, schema.value_schema, options)
    if schema.key_schema.type in (Type.ARRAY, Type.MAP):
        raise SchemaError("a map whose keys are lists or maps cannot be held")
    return lambda found: {of_key(one): of_value(one) for one in getattr(found, name)}


def _element(member: Member, schema: Schema, options: ProtobufConfig) -> Read:
    """Builds the reader of one value of a field."""
    field = member.descriptor
    if field.enum_type is not None:
        if schema.type is Type.INT32:
            return lambda number: number
        names = {v.number: v.name for v in reversed(field.enum_type.values)}
        unknown = f"UNKNOWN_ENUM_VALUE_{field.enum_type.name}_"
        return lambda number: names.get(number) or f"{unknown}{number}"
    if field.message_type is None:
        return _plain(schema, options)
    if schema.name in _LOGICAL:
        logical = _LOGICAL[schema.name]
        return lambda found: logical(found, options.strict)
    if schema.type is Type.STRUCT:
        return _struct(field.message_type, schema, options)
    if field.message_type.full_name not in WRAPPED:
        raise SchemaError(f"the message {field.message_type.full_name} is no {schema.type.name}")
    inner = _plain(schema, options)
    return lambda found: inner(found.value)


def _plain(schema: Schema, options: ProtobufConfig) -> Read:
    bits = _BITS.get(schema.type)
    if bits is None:
        return lambda value: value
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    strict = options.strict

    def read(value: int) -> int:
        if low <= value <= high:
            return value
        if strict:
            raise DataError(f"{value} does not fit into {bits} bits with a sign")
        return wrap_integer(value, bits)  # as in the original, whose long has 64 bits

    return read


def _decimal(found: Any, strict: bool) -> Decimal:
    if not found.value:
        raise DataError("a decimal without bytes")
    try:
        return bytes_to_decimal(found.value, found.scale)
    except (ValueError, ArithmeticError) as e:
        raise DataError(f"no decimal can be made of {len(found.value)} bytes: {e}") from e


def _date(found: Any, strict: bool) -> dt.date | FarInstant:
    written = (found.year, found.month, found.day)
    day = day_of_date(*written)
    if found.year < 1 or date_of_day(day) != written or day > INT_RANGES[Type.INT32][1]:
        raise DataError(f"{found.year}-{found.month}-{found.day} is no date")
    return date_of(day)


def _time(found: Any, strict: bool) -> dt.time:
    _whole_millis(found.nanos, strict)
    try:
        return dt.time(found.hours, found.minutes, found.seconds, found.nanos // _MILLION * 1000)
    except (ValueError, OverflowError) as e:
        raise DataError(f"{found.hours}:{found.minutes}:{found.seconds} and {found.nanos} ns is no time of day") from e


def _timestamp(found: Any, strict: bool) -> dt.datetime | FarInstant:
    _whole_millis(found.nanos, strict)
    if not 0 <= found.nanos < 1_000_000_000:
        raise DataError(f"a timestamp with {found.nanos} nanoseconds, which must be 0 to 999999999")
    millis: int = found.seconds * 1000 + found.nanos // _MILLION
    low, high = INT_RANGES[Type.INT64]
    if not low <= millis <= high:
        raise DataError(f"a timestamp {found.seconds} seconds from 1970, whose milliseconds do not fit into 64 bits")
    return instant_of(millis)


def _whole_millis(nanos: int, strict: bool) -> None:
    if strict and nanos % _MILLION:
        raise DataError(f"{nanos} nanoseconds are more than milliseconds, which is all that Connect's type holds")


_LOGICAL: dict[str | None, Callable[[Any, bool], Any]] = {DECIMAL: _decimal, DATE: _date, TIME: _time, TIMESTAMP: _timestamp}
