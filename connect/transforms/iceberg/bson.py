"""Parses MongoDB Extended JSON, version 1 and 2, as Debezium writes documents.

Source: https://www.mongodb.com/docs/manual/reference/mongodb-extended-json/, and version 1 beside it. The mongo shell's own
notation (``ObjectId("...")``, names without quotes) is not read.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import json
import uuid
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, NamedTuple

from connect.data.logical import EPOCH
from connect.errors import DataError
from connect.java.numbers import NumberFormatError, parse_double, parse_integer


class BsonType(Enum):
    """The types of BSON values."""

    DOUBLE = auto()
    STRING = auto()
    DOCUMENT = auto()
    ARRAY = auto()
    BINARY = auto()
    UNDEFINED = auto()
    OBJECT_ID = auto()
    BOOLEAN = auto()
    DATE_TIME = auto()
    NULL = auto()
    REGULAR_EXPRESSION = auto()
    DB_POINTER = auto()
    JAVASCRIPT = auto()
    SYMBOL = auto()
    JAVASCRIPT_WITH_SCOPE = auto()
    INT32 = auto()
    TIMESTAMP = auto()
    INT64 = auto()
    DECIMAL128 = auto()
    MIN_KEY = auto()
    MAX_KEY = auto()


class BsonValue(NamedTuple):
    """A value: a dict of values for a document, a list of values for an array, milliseconds for a DATE_TIME, seconds for a
    TIMESTAMP, text for an OBJECT_ID and a DECIMAL128, a pair for a REGULAR_EXPRESSION and a JAVASCRIPT_WITH_SCOPE."""

    type: BsonType
    value: Any


NULL = BsonValue(BsonType.NULL, None)
_MILLISECOND = dt.timedelta(milliseconds=1)
_DECIMAL128 = decimal.Context(prec=34, Emin=-6143, Emax=6144, clamp=1, traps=[decimal.Inexact, decimal.InvalidOperation])


class _NotExtended(Exception):
    """The object is a document, although its first name is one of Extended JSON."""


def parse_document(text: str) -> dict[str, BsonValue]:
    """Parses a document. Raises DataError."""
    found = parse_value(text)
    if found.type is not BsonType.DOCUMENT:
        raise DataError(f"a document is expected, found {found.type.name}: {_short(text)}")
    document: dict[str, BsonValue] = found.value
    return document


def parse_value(text: str) -> BsonValue:
    """Parses a value. Raises DataError."""
    try:
        return _scalar(_DECODER.decode(text))
    except (ValueError, RecursionError, decimal.DecimalException, NumberFormatError, OverflowError) as e:
        raise DataError(f"{_short(text)} is no Extended JSON of MongoDB: {e}") from e


def _short(text: str) -> str:
    return repr(text if len(text) <= 100 else f"{text[:100]}...")


def _scalar(value: Any) -> BsonValue:
    if isinstance(value, BsonValue):
        return value
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BsonValue(BsonType.BOOLEAN, value)
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        return BsonValue(BsonType.DOUBLE, value)
    if isinstance(value, list):
        return BsonValue(BsonType.ARRAY, [_scalar(member) for member in value])
    return BsonValue(BsonType.STRING, value)


def _integer(value: int) -> BsonValue:
    if -(1 << 31) <= value < 1 << 31:
        return BsonValue(BsonType.INT32, value)
    if -(1 << 63) <= value < 1 << 63:
        return BsonValue(BsonType.INT64, value)
    raise ValueError(f"{value} does not fit 64 bits")


def _object(pairs: list[tuple[str, Any]]) -> BsonValue:
    if pairs and pairs[0][0].startswith("$"):
        read = _EXTENDED.get(pairs[0][0])
        if read is not None:
            try:
                return read(dict(pairs))
            except _NotExtended:
                pass
    return BsonValue(BsonType.DOCUMENT, {name: _scalar(value) for name, value in pairs})


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=lambda text: int(text) if len(text) < 40 else float("inf"))


def _only(members: dict[str, Any], *names: str) -> list[Any]:
    """The members with exactly these names."""
    if set(members) != set(names):
        raise ValueError(f"expected {', '.join(names)} and nothing else, found {', '.join(members)}")
    return [members[name] for name in names]


def _text(members: dict[str, Any], name: str) -> str:
    (text,) = _only(members, name)
    if not isinstance(text, str):
        raise ValueError(f"{name} needs a text")
    return text


def _whole(value: Any, name: str) -> int:
    if isinstance(value, BsonValue) and value.type in (BsonType.INT32, BsonType.INT64):
        whole: int = value.value
        return whole
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} needs an integer")
    return value


def _date(members: dict[str, Any]) -> BsonValue:
    (value,) = _only(members, "$date")
    if not isinstance(value, str):
        return BsonValue(BsonType.DATE_TIME, _whole(value, "$date"))
    moment = dt.datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError(f"$date needs a time zone: {value}")
    return BsonValue(BsonType.DATE_TIME, (moment - EPOCH) // _MILLISECOND)


def _binary(members: dict[str, Any]) -> BsonValue:
    inner = members.get("$binary")
    if isinstance(inner, BsonValue) and inner.type is BsonType.DOCUMENT:
        _only(members, "$binary")
        data, _ = (value.value for value in _only(inner.value, "base64", "subType"))
    elif "$type" in members and isinstance(inner, str):
        data, _ = _only(members, "$binary", "$type")
    else:
        raise _NotExtended
    try:
        return BsonValue(BsonType.BINARY, base64.b64decode(data, validate=True))
    except binascii.Error as e:
        raise ValueError(f"$binary: {e}") from None


def _regex(members: dict[str, Any]) -> BsonValue:
    if set(members) != {"$regex", "$options"} or not all(isinstance(value, str) for value in members.values()):
        raise _NotExtended
    return BsonValue(BsonType.REGULAR_EXPRESSION, (members["$regex"], _sorted_options(members["$options"])))


def _regular_expression(members: dict[str, Any]) -> BsonValue:
    inner = members["$regularExpression"]
    if not isinstance(inner, BsonValue) or inner.type is not BsonType.DOCUMENT:
        raise _NotExtended
    pattern, options = (value.value for value in _only(inner.value, "pattern", "options"))
    return BsonValue(BsonType.REGULAR_EXPRESSION, (pattern, _sorted_options(options)))


def _sorted_options(options: str) -> str:
    return "".join(sorted(options))


def _timestamp(members: dict[str, Any]) -> BsonValue:
    (inner,) = _only(members, "$timestamp")
    if not isinstance(inner, BsonValue) or inner.type is not BsonType.DOCUMENT:
        raise ValueError("$timestamp needs t and i")
    seconds, _ = (_whole(value, "$timestamp") for value in _only(inner.value, "t", "i"))
    # Seconds are an unsigned number, and Java's int is signed.
    return BsonValue(BsonType.TIMESTAMP, (seconds + (1 << 31)) % (1 << 32) - (1 << 31))


def _code(members: dict[str, Any]) -> BsonValue:
    if "$scope" not in members:
        return BsonValue(BsonType.JAVASCRIPT, _text(members, "$code"))
    code, scope = _only(members, "$code", "$scope")
    if not isinstance(scope, BsonValue) or scope.type is not BsonType.DOCUMENT:
        raise ValueError("$scope needs a document")
    return BsonValue(BsonType.JAVASCRIPT_WITH_SCOPE, (code, scope.value))


def _object_id(members: dict[str, Any]) -> BsonValue:
    text = _text(members, "$oid")
    if len(text) != 24 or not all(c in "0123456789abcdefABCDEF" for c in text):
        raise ValueError(f"$oid needs 24 hexadecimal digits: {text}")
    return BsonValue(BsonType.OBJECT_ID, text.lower())


def _number(name: str, kind: BsonType, parse: Callable[[str], Any]) -> Callable[[dict[str, Any]], BsonValue]:
    def read(members: dict[str, Any]) -> BsonValue:
        (value,) = _only(members, name)
        if isinstance(value, str):
            return BsonValue(kind, parse(value))
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{name} needs a text")
        return BsonValue(kind, parse(repr(value)))

    return read


def _decimal128(text: str) -> str:
    return str(_DECIMAL128.create_decimal(text))


def _marker(name: str, kind: BsonType) -> Callable[[dict[str, Any]], BsonValue]:
    def read(members: dict[str, Any]) -> BsonValue:
        _only(members, name)
        return BsonValue(kind, None)

    return read


_EXTENDED: dict[str, Callable[[dict[str, Any]], BsonValue]] = {
    "$binary": _binary,
    "$type": _binary,
    "$uuid": lambda members: BsonValue(BsonType.BINARY, uuid.UUID(_text(members, "$uuid")).bytes),
    "$code": _code,
    "$date": _date,
    "$dbPointer": _marker("$dbPointer", BsonType.DB_POINTER),
    "$maxKey": _marker("$maxKey", BsonType.MAX_KEY),
    "$minKey": _marker("$minKey", BsonType.MIN_KEY),
    "$numberDecimal": _number("$numberDecimal", BsonType.DECIMAL128, _decimal128),
    "$numberDouble": _number("$numberDouble", BsonType.DOUBLE, parse_double),
    "$numberInt": _number("$numberInt", BsonType.INT32, lambda text: parse_integer(text, 32)),
    "$numberLong": _number("$numberLong", BsonType.INT64, lambda text: parse_integer(text, 64)),
    "$oid": _object_id,
    "$options": _regex,
    "$regex": _regex,
    "$regularExpression": _regular_expression,
    "$symbol": _marker("$symbol", BsonType.SYMBOL),
    "$timestamp": _timestamp,
    "$undefined": _marker("$undefined", BsonType.UNDEFINED),
}
