"""Converts Connect values to text, for text columns, and to JSON, for nested values that a database has no type for."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from connect.errors import DataError
from connectors.databases.calendar import NS_PER_DAY, format_time_ns
from connectors.jdbc.dialects.conversion import to_day, to_instant_ns, to_python, to_time_ns, to_wall_ns
from connectors.jdbc.dialects.logical_types import FLOATS, INTEGERS, TEXTS, FieldKind, LogicalType
from connectors.jdbc.dialects.types import format_wall_ns
from connectors.jdbc.options import WriteOptions

ToText = Callable[[Any], str]


def to_text(logical: LogicalType, options: WriteOptions, what: str) -> ToText:
    """Returns a converter to text: ISO-8601 for dates and times, plain digits for numbers, JSON for arrays, maps, and structs.
    Raises DataError for bytes and geometries."""
    kind = logical.kind
    if kind in TEXTS or kind in INTEGERS or kind is FieldKind.DURATION:
        return str
    if kind in FLOATS:
        return repr
    if kind is FieldKind.BOOLEAN:
        return lambda value: "true" if value else "false"
    if kind is FieldKind.DECIMAL:
        convert = to_python(logical, options, what)
        return _decimal if convert is None else lambda value: _decimal(convert(value))
    if logical.is_temporal:
        return _temporal(logical, options, what)
    if kind is FieldKind.BITS:
        bits = to_python(logical, options, what)
        assert bits is not None
        return bits
    if kind in (FieldKind.ARRAY, FieldKind.MAP, FieldKind.STRUCT):
        return to_json(logical, options, what)
    raise DataError(f"{what} is {kind.value}, which cannot be written to a text column")


def _decimal(value: Decimal) -> str:
    return format(value, "f")


def _temporal(logical: LogicalType, options: WriteOptions, what: str) -> ToText:
    digits = logical.digits
    match logical.kind:
        case FieldKind.DATE:
            day = to_day(logical, options, what)
            return lambda value: format_wall_ns(day(value) * NS_PER_DAY, 0)[:-9]
        case FieldKind.TIME:
            time = to_time_ns(logical, options, what)
            return lambda value: format_time_ns(time(value), _shown(time(value), digits))
        case FieldKind.ZONED_TIME:
            return str
        case FieldKind.TIMESTAMP:
            wall = to_wall_ns(logical, options, what)
            return lambda value: format_wall_ns(wall(value), _shown(wall(value), digits))
    instant = to_instant_ns(logical, options, what)
    return lambda value: format_wall_ns(instant(value), _shown(instant(value), digits)) + "Z"


def _shown(ns: int, digits: int) -> int:
    """Returns the number of fractional digits to show: at least three if the type has them, more if the value needs them."""
    fraction = ns % 1_000_000_000
    if fraction % 1_000_000 == 0:
        return min(digits, 3)
    return 6 if fraction % 1000 == 0 else 9


def to_json(logical: LogicalType, options: WriteOptions, what: str) -> ToText:
    """Returns a converter to JSON: exact numbers, base64 for bytes, ISO-8601 for dates and times. It rejects NaN and infinity."""
    kind = logical.kind
    if kind in INTEGERS or kind is FieldKind.BOOLEAN or kind is FieldKind.DECIMAL or kind is FieldKind.DURATION:
        return to_text(logical, options, what)
    if kind in FLOATS:
        return lambda value: _json_float(value, what)
    if kind is FieldKind.JSON:
        return str
    if kind in TEXTS:
        return _quote
    if kind is FieldKind.BYTES:
        return lambda value: f'"{base64.b64encode(value).decode()}"'
    if kind is FieldKind.ARRAY:
        assert logical.element is not None
        element = to_json(logical.element, options, what)
        return lambda values: f"[{','.join('null' if v is None else element(v) for v in values)}]"
    if kind is FieldKind.MAP:
        return _map(logical, options, what)
    if kind is FieldKind.STRUCT:
        members = [(f"{_quote(name)}:", to_json(member, options, f"{what}.{name}")) for name, member in logical.members]
        return lambda struct: (
            "{"
            + ",".join(
                f"{name}{'null' if value is None else convert(value)}"
                for (name, convert), value in zip(members, struct.values, strict=True)
            )
            + "}"
        )
    text = to_text(logical, options, what)
    return lambda value: _quote(text(value))


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _json_float(value: float, what: str) -> str:
    if value - value != 0:
        raise DataError(f"{what}: JSON has no number for {value}")
    return repr(value)


def _map(logical: LogicalType, options: WriteOptions, what: str) -> ToText:
    assert logical.key is not None
    assert logical.element is not None
    key = to_text(logical.key, options, what)
    element = to_json(logical.element, options, what)
    return lambda values: (
        "{" + ",".join(f"{_quote(key(k))}:{'null' if v is None else element(v)}" for k, v in values.items()) + "}"
    )
