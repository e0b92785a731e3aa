"""Encodes Connect values to messages, with functions built once per schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import Descriptor

from connect.data.logical import DATE, DECIMAL, TIME, TIMESTAMP, decimal_to_bytes
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.data.types import INT_RANGES
from connect.errors import DataError, SchemaError
from connect.java.calendar import date_of_day
from connectors.registry.protobuf.config import WRAPPED, ProtobufConfig, is_union
from connectors.registry.protobuf.from_connect import proto_name
from connectors.registry.protobuf.proto_parser import SCALARS
from connectors.registry.protobuf.to_connect import Member, members
from connectors.registry.values import (
    mismatch_error,
    raise_mismatch,
    require_bytes,
    require_date_days,
    require_decimal,
    require_integer,
    require_time_millis,
    require_timestamp_millis,
    shorten,
    within_field,
)

Fill = Callable[[Any, Any], None]
"""Sets a value that is not None in a message. Raises DataError."""
Plain = Callable[[Any], Any]
_UNSIGNED = {SCALARS[name]: 32 if "32" in name else 64 for name in ("uint32", "fixed32", "uint64", "fixed64")}
_FITS = {
    **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32), ("int32", "sint32", "sfixed32", "int64", "sint64", "sfixed64")),
    Type.INT64: ("int64", "sint64", "sfixed64", "uint32", "fixed32", "uint64", "fixed64"),
    Type.FLOAT32: ("float", "double"),
    Type.FLOAT64: ("double",),
    Type.BOOLEAN: ("bool",),
    Type.STRING: ("string",),
    Type.BYTES: ("bytes",),
}
_KINDS = {kind: tuple(SCALARS[name] for name in names) for kind, names in _FITS.items()}


def compile_filler(message: Descriptor, schema: Schema, options: ProtobufConfig, lenient: bool) -> Fill:
    """Builds the function that fills messages with values of the schema. Raises SchemaError if they do not match; with
    ``lenient``, fields that the message lacks are dropped."""
    return _ProtobufEncoderCompiler(options, lenient).root(message, schema)


class _ProtobufEncoderCompiler:
    def __init__(self, options: ProtobufConfig, lenient: bool) -> None:
        self._options = options
        self._lenient = lenient

    def root(self, message: Descriptor, schema: Schema) -> Fill:
        if schema.type is Type.STRUCT:
            return self._struct(message, schema)
        if message.full_name not in WRAPPED:
            raise SchemaError(f"{schema.type.name} cannot be written as the message {message.full_name}")
        return self._wrapper(message, schema)

    def _struct(self, message: Descriptor, schema: Schema) -> Fill:
        every = {m.descriptor.name: m for m in members(message)}
        puts = [(f.name, f.schema, self._put(every, f.name, f.schema, message)) for f in schema.fields or ()]
        uses_defaults = not self._options.ignore_default_for_nullables

        def fill(made: Any, value: Any) -> None:
            if not isinstance(value, Struct):
                raise mismatch_error("a Struct", value)
            if value.schema is not schema and value.schema != schema:
                raise DataError("Mismatching struct schema")
            for (name, member, put), cell in zip(puts, value.values, strict=True):
                if cell is None and uses_defaults:
                    cell = member.default
                if cell is None or put is None:
                    continue
                try:
                    put(made, cell)
                except DataError as e:
                    raise within_field(name, e) from e
                except (TypeError, ValueError) as e:
                    raise DataError(f"field {name}: {e}") from e

        return fill

    def _put(self, every: dict[str, Member], name: str, schema: Schema, message: Descriptor) -> Fill | None:
        """Builds the function that sets one field of a message."""
        try:
            if is_union(schema):
                return self._union(every, schema, message)
            member = every.get(proto_name(name, "The field name", self._options))
            if member is None:
                if self._lenient:
                    return None
                raise SchemaError(f"the message {message.full_name} has no field {name}")
            return self._member(member, schema)
        except SchemaError as e:
            raise SchemaError(f"field {name}: {e.message}" if not e.message.startswith("field ") else e.message) from e

    def _union(self, every: dict[str, Member], schema: Schema, message: Descriptor) -> Fill:
        puts = [(f.name, self._put(every, f.name, f.schema, message)) for f in schema.fields or ()]

        def fill(made: Any, value: Any) -> None:
            if not isinstance(value, Struct):
                raise mismatch_error("a Struct", value)
            for (name, put), cell in zip(puts, value.values, strict=True):
                if cell is not None and put is not None:
                    try:
                        put(made, cell)
                    except DataError as e:
                        raise within_field(name, e) from e
                    return
            raise DataError("Cannot find non-null field")

        return fill

    def _member(self, member: Member, schema: Schema) -> Fill:
        name = member.descriptor.name
        if schema.type is Type.MAP:
            return self._map(member, schema)
        if schema.type is Type.ARRAY:
            if not member.is_repeated or schema.value_schema is None:
                raise SchemaError("an array can be written to a repeated field only")
            return self._list(member, schema.value_schema)
        if member.is_repeated:
            raise SchemaError(f"{schema.type.name} cannot be written to a repeated field")
        if member.descriptor.message_type is None:
            plain = self._plain(member, schema)
            return lambda made, value: setattr(made, name, plain(value))
        inner = self._message(member, schema)

        def fill(made: Any, value: Any) -> None:
            target = getattr(made, name)
            target.SetInParent()
            inner(target, value)

        return fill

    def _list(self, member: Member, schema: Schema) -> Fill:
        name = member.descriptor.name
        if member.descriptor.message_type is None:
            plain = self._plain(member, schema)
            return lambda made, value: getattr(made, name).extend([plain(_present(v)) for v in _listed(value)])
        inner = self._message(member, schema)

        def fill(made: Any, value: Any) -> None:
            target = getattr(made, name)
            for one in _listed(value):
                inner(target.add(), _present(one))

        return fill

    def _map(self, member: Member, schema: Schema) -> Fill:
        name, keys, values = member.descriptor.name, schema.key_schema, schema.value_schema
        if not member.is_map or keys is None or values is None:
            raise SchemaError("a map can be written to a map field, or to a repeated message with key and value, only")
        entry = member.descriptor.message_type
        key, value = members(entry)
        if entry.GetOptions().map_entry:
            return self._native_map(name, self._plain(key, keys), value, values)
        put_key, put_value = self._member(key, keys), self._member(value, values)

        def fill(made: Any, found: Any) -> None:
            target = getattr(made, name)
            for k, v in _mapped(found).items():
                one = target.add()
                if k is not None:
                    put_key(one, k)
                if v is not None:
                    put_value(one, v)

        return fill

    def _native_map(self, name: str, plain_key: Plain, value: Member, schema: Schema) -> Fill:
        if value.descriptor.message_type is not None:
            inner = self._message(value, schema)

            def fill_messages(made: Any, found: Any) -> None:
                target = getattr(made, name)
                for k, v in _mapped(found).items():
                    inner(target[plain_key(k)], _present(v))

            return fill_messages
        plain = self._plain(value, schema)

        def fill(made: Any, found: Any) -> None:
            target = getattr(made, name)
            for k, v in _mapped(found).items():
                target[plain_key(k)] = plain(_present(v))

        return fill

    def _message(self, member: Member, schema: Schema) -> Fill:
        message = member.descriptor.message_type
        if schema.name in _LOGICAL:
            wanted, logical = _LOGICAL[schema.name]
            if message.full_name != wanted:
                raise SchemaError(f"{schema.name} is written as {wanted}, not {message.full_name}")
            return logical
        if schema.type is Type.STRUCT:
            return self._struct(message, schema)
        if message.full_name in WRAPPED:
            return self._wrapper(message, schema)
        raise SchemaError(f"{schema.type.name} cannot be written as the message {message.full_name}")

    def _wrapper(self, message: Descriptor, schema: Schema) -> Fill:
        (member,) = members(message)
        plain = self._plain(member, schema)
        return lambda made, value: setattr(made, "value", plain(value))

    def _plain(self, member: Member, schema: Schema) -> Plain:
        """Builds the converter of a field that is not a message."""
        field = member.descriptor
        if field.enum_type is not None:
            return self._symbol(member, schema)
        if field.type not in _KINDS.get(schema.type, ()):
            raise SchemaError(f"{schema.type.name} cannot be written to the field {field.full_name}")
        if schema.type in INT_RANGES:
            return self._integer(*INT_RANGES[schema.type], _UNSIGNED.get(field.type))
        kind: type = {Type.BOOLEAN: bool, Type.STRING: str, Type.BYTES: bytes}.get(schema.type, float)
        if kind is bytes:
            return require_bytes
        return lambda value: value if isinstance(value, kind) else raise_mismatch(f"a {kind.__name__}", value)

    def _integer(self, low: int, high: int, unsigned_bits: int | None) -> Plain:
        mask = None if unsigned_bits is None else (1 << unsigned_bits) - 1
        strict = self._options.strict

        def plain(value: Any) -> int:
            number = require_integer(value, low, high)
            if mask is None or 0 <= number <= mask:
                return number
            if strict:
                raise DataError(f"{number} does not fit into {unsigned_bits} bits without a sign")
            return number & mask  # as in the original, keep the low bits

        return plain

    def _symbol(self, member: Member, schema: Schema) -> Plain:
        numbers = {v.name: v.number for v in member.descriptor.enum_type.values}
        if schema.type in INT_RANGES:
            return self._integer(*INT_RANGES[Type.INT32], None)
        if schema.type is not Type.STRING:
            raise SchemaError(f"{schema.type.name} cannot be written as an enum")

        def plain(value: Any) -> int:
            number = numbers.get(value) if isinstance(value, str) else None
            if number is None:
                raise DataError(f"{shorten(value)} is none of the enum's values {', '.join(list(numbers)[:20])}")
            return int(number)

        return plain


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else raise_mismatch("a list", value)


def _mapped(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else raise_mismatch("a dict", value)


def _present(value: Any) -> Any:
    if value is None:
        raise DataError("a null within a list or map, which Protobuf does not have")
    return value


def _decimal(made: Any, value: Any) -> None:
    _, digits, exponent = require_decimal(value).as_tuple()
    scale = -int(exponent)
    made.value = decimal_to_bytes(value, scale)
    made.precision = max(1, len("".join(map(str, digits)).lstrip("0")))
    made.scale = scale


def _date(made: Any, value: Any) -> None:
    # Julian before 15 October 1582, like the original's calendar, which readers expect.
    year, month, day = date_of_day(require_date_days(value))
    if year < 1:
        raise DataError(f"google.type.Date has no years before the year 1, and {1 - year} BC is one; a Timestamp holds it")
    made.year, made.month, made.day = year, month, day


def _time(made: Any, value: Any) -> None:
    seconds, millis = divmod(require_time_millis(value), 1000)
    made.hours, made.minutes, made.seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    made.nanos = millis * 1_000_000


def _timestamp(made: Any, value: Any) -> None:
    made.seconds, millis = divmod(require_timestamp_millis(value), 1000)
    made.nanos = millis * 1_000_000


_LOGICAL: dict[str | None, tuple[str, Fill]] = {
    DECIMAL: ("confluent.type.Decimal", _decimal),
    DATE: ("google.type.Date", _date),
    TIME: ("google.type.TimeOfDay", _time),
    TIMESTAMP: ("google.protobuf.Timestamp", _timestamp),
}
