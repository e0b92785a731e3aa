"""Slow path of reading: converts parsed JSON to values one at a time, with Apache's rules.

JsonConverter is lenient: 300 as int8 is 44, ``"a"`` is 0; 128 as a string is null; 1.5 as a boolean is false. The rules are the
same here (promise 8), pinned by the vectors of converters.jsonl. Nodes come from :mod:`connect.converters.json.parser`: None,
bool, str, int, Decimal, list, dict, or MISSING.
"""

from __future__ import annotations

import binascii
import decimal
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from connect.converters.json.parser import MISSING
from connect.data.logical import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    bytes_to_decimal,
    date_of,
    decimal_scale,
    instant_of,
    millis_to_time,
)  # fmt: skip
from connect.data.schema import Schema, Type
from connect.data.struct import Struct, validate_put
from connect.errors import DataError
from connect.java.sized_numbers import round_to_float32, wrap_integer

_BASE64_GROUPS = re.compile(r"(?:[\x00-\x20]*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==))*[\x00-\x20]*")
_BASE64_RUN = re.compile(r"[A-Za-z0-9+/]+=*")
_INT_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_INT32_RANGE = (-(1 << 31), (1 << 31) - 1)
_INT64_RANGE = (-(1 << 63), (1 << 63) - 1)


NON_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
"""How JsonConverter writes the doubles for which JSON has no number. Apache's reads them as 0.0, strict reading as they are."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The settings of JsonConverter for reading."""

    replace_null_with_default: bool = True
    strict: bool = False


def read_value(schema: Schema | None, node: Any, options: ReadOptions) -> Any:
    """Returns the value of a node under a schema. Raises DataError."""
    try:
        return _read(schema, node, options)
    except RecursionError as e:
        raise DataError("A JSON value is nested too deeply") from e


def node_type(node: Any) -> str:
    """Returns Jackson's name of a node's type, for error messages."""
    if node is None:
        return "NULL"
    names: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (bool, "BOOLEAN"), (str, "STRING"), ((int, decimal.Decimal), "NUMBER"), (list, "ARRAY"), (dict, "OBJECT"),
    )  # fmt: skip
    return next((name for kind, name in names if isinstance(node, kind)), "MISSING")


def to_integer(node: Any, bits: int) -> int:
    """Converts a node to a Java integer: numbers lose their fraction and their high bits; everything else is 0."""
    if type(node) is int:
        return wrap_integer(node, bits)
    if type(node) is decimal.Decimal:
        return wrap_integer(_low_bits(node), bits)
    return 0


def to_float(node: Any) -> float:
    """Converts a node to a double; anything but a number is 0."""
    if type(node) is int or type(node) is decimal.Decimal:
        try:
            return float(node)
        except OverflowError:
            return float("inf") if node > 0 else float("-inf")
    return 0.0


def decode_base64(text: str) -> bytes:
    """The bytes. Raises ValueError when the text is not base64."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        if not _BASE64_GROUPS.fullmatch(text):
            raise
        return b"".join(binascii.a2b_base64(run) for run in _BASE64_RUN.findall(_without_blanks(text)))
    if (len(data) + 2) // 3 * 4 != len(text):  # the codec lets padding pass that pads nothing
        raise ValueError("Padding behind a full group")
    return data


def _without_blanks(text: str) -> str:
    return re.sub(r"[\x00-\x20]", "", text)


def _low_bits(number: decimal.Decimal) -> int:
    """Returns the integer part modulo 2^64, without expanding large exponents."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    if exponent >= 0:
        magnitude = int(text) * pow(10, exponent, 1 << 64)
    else:
        magnitude = int(text[:exponent] or "0")
    return -magnitude if sign else magnitude


def to_float32(node: Any) -> float:
    """Converts a node to a 32-bit float. It is rounded once, from all digits: rounding to a double first could give the wrong
    neighbor."""
    if type(node) is not int and type(node) is not decimal.Decimal:
        return 0.0
    rounded = round_to_float32(to_float(node))
    if rounded in (float("inf"), float("-inf"), 0.0):
        return rounded
    exact = decimal.Decimal(node)
    if exact == decimal.Decimal(rounded):
        return rounded
    bits = struct.unpack("<i", struct.pack("<f", abs(rounded)))[0]
    beyond = exact.copy_abs() > decimal.Decimal(abs(rounded))
    other: float = struct.unpack("<f", struct.pack("<i", bits + (1 if beyond else -1)))[0]
    if other == float("inf"):
        return rounded
    context = decimal.Context(prec=1200)
    here = context.abs(context.subtract(exact.copy_abs(), decimal.Decimal(abs(rounded))))
    there = context.abs(context.subtract(exact.copy_abs(), decimal.Decimal(other)))
    nearest = other if there < here or (there == here and bits & 1) else abs(rounded)
    return -nearest if node < 0 else nearest


def _read(schema: Schema | None, node: Any, options: ReadOptions) -> Any:
    if schema is None:
        return _read_schemaless(node, options)
    if node is None:
        if schema.default is not None and options.replace_null_with_default:
            return schema.default
        if schema.optional:
            return None
        raise DataError(f"Invalid null value for required {schema.type.name} field")
    logical = _LOGICAL.get(schema.name) if schema.name is not None else None
    if logical is not None:
        return logical(schema, node)
    match schema.type:
        case Type.INT8 | Type.INT16:
            return wrap_integer(to_integer(node, 32), _INT_BITS[schema.type])
        case Type.INT32 | Type.INT64:
            return to_integer(node, _INT_BITS[schema.type])
        case Type.FLOAT32 | Type.FLOAT64 if options.strict and type(node) is str and node in NON_FINITE:
            return NON_FINITE[node]
        case Type.FLOAT32:
            return to_float32(node)
        case Type.FLOAT64:
            return to_float(node)
        case Type.BOOLEAN:
            return node is True
        case Type.STRING:
            return node if type(node) is str else None
        case Type.BYTES:
            if type(node) is not str:
                return None
            try:
                return decode_base64(node)
            except ValueError as e:
                raise DataError("Invalid bytes field") from e
        case Type.ARRAY:
            # Apache iterates over the children of any node: the values of an object, nothing of a scalar.
            elements = node if isinstance(node, list) else node.values() if isinstance(node, dict) else ()
            return [_read(schema.value_schema, element, options) for element in elements]
        case Type.MAP:
            return _read_map(schema, node, options)
        case Type.STRUCT:
            return _read_struct(schema, node, options)


def _read_schemaless(node: Any, options: ReadOptions) -> Any:
    if node is None or node is MISSING or isinstance(node, bool | str):
        return None if node is MISSING else node
    if type(node) is int:
        return wrap_integer(node, 64)
    if type(node) is decimal.Decimal:
        return to_float(node)
    if isinstance(node, list):
        return [_read_schemaless(element, options) for element in node]
    return {key: _read_schemaless(element, options) for key, element in node.items()}


def _read_map(schema: Schema, node: Any, options: ReadOptions) -> dict[Any, Any]:
    keys, values = schema.key_schema, schema.value_schema
    if keys is not None and keys.type is Type.STRING:
        if not isinstance(node, dict):
            raise DataError(f"Maps with string fields should be encoded as JSON objects, but found {node_type(node)}")
        return {key: _read(values, element, options) for key, element in node.items()}
    if not isinstance(node, list):
        raise DataError(f"Maps with non-string fields should be encoded as JSON array of tuples, but found {node_type(node)}")
    result = {}
    for entry in node:
        if not isinstance(entry, list):
            raise DataError(f"Found invalid map entry instead of array tuple: {node_type(entry)}")
        if len(entry) != 2:
            raise DataError(f"Found invalid map entry, expected length 2 but found :{len(entry)}")
        key, element = _read(keys, entry[0], options), _read(values, entry[1], options)
        try:
            result[key] = element
        except TypeError as e:
            raise DataError(f"A map key of type {type(key).__name__} cannot be held: keys must be hashable") from e
    return result


def _read_struct(schema: Schema, node: Any, options: ReadOptions) -> Struct:
    if not isinstance(node, dict):
        raise DataError(f"Structs should be encoded as JSON objects, but found {node_type(node)}")
    values = []
    for field in schema.fields or ():
        try:
            value = _read(field.schema, node.get(field.name), options)
            validate_put(field.name, field.schema, value)
        except DataError as e:
            e.in_field(field.name)
            raise
        values.append(value)
    return Struct(schema, values)


def _read_decimal(schema: Schema, node: Any) -> decimal.Decimal:
    if type(node) is int or type(node) is decimal.Decimal:
        return decimal.Decimal(node)  # with the scale of its text, like Apache
    if type(node) is str:
        try:
            data = decode_base64(node)
            if not data:
                raise ValueError("Zero length BigInteger")
            return bytes_to_decimal(data, decimal_scale(schema))
        except (ValueError, DataError) as e:
            raise DataError("Invalid bytes for Decimal field") from e
    raise DataError(f"Invalid type for Decimal, underlying representation should be numeric or bytes but was {node_type(node)}")


def _integer_node(node: Any, name: str, bounds: tuple[int, int], kind: str) -> int:
    if type(node) is int and bounds[0] <= node <= bounds[1]:
        return node
    raise DataError(f"Invalid type for {name}, underlying representation should be {kind} but was {node_type(node)}")


def _read_timestamp(schema: Schema, node: Any) -> Any:
    if type(node) is not int:
        _integer_node(node, "Timestamp", _INT64_RANGE, "integral")
    return instant_of(wrap_integer(node, 64))


_LOGICAL: dict[str, Callable[[Schema, Any], Any]] = {
    DECIMAL: _read_decimal,
    DATE: lambda schema, node: date_of(_integer_node(node, "Date", _INT32_RANGE, "integer")),
    TIME: lambda schema, node: millis_to_time(_integer_node(node, "Time", _INT32_RANGE, "integer")),
    TIMESTAMP: _read_timestamp,
}
