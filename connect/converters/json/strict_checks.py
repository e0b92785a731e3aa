"""Checks for ``conversion.strict=true`` that reading a JSON value loses nothing.

The rules of reading are in :mod:`connect.converters.json.value_reader`. This module checks a parsed node first: if those rules
would truncate, wrap, round, replace, or drop something, an error names the field (promise 8).
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from connect.converters.json.parser import MISSING
from connect.converters.json.value_reader import NON_FINITE, node_type, to_float, to_float32
from connect.data.logical import DATE, DECIMAL, TIME, TIMESTAMP
from connect.data.schema import Schema, Type
from connect.data.types import INT_RANGES
from connect.errors import DataError
from connect.java.float_digits import shortest_float32
from connect.java.number_text import double_text, float_text
from connect.strict import STRICT

_TEXT = {Type.STRING: "text", Type.BYTES: "base64 text"}
_SHOWN_CHARACTERS = 60
_DOUBLE_TEXTS: Sequence[Callable[[float], str]] = repr, double_text
_FLOAT_TEXTS: Sequence[Callable[[float], str]] = (lambda number: repr(_shortest_float(number))), float_text
_OTHERWISE_CHECKED = {DECIMAL, DATE, TIME}
"""Logical types that are never read with loss: reading rejects invalid values."""


def check_lossless(schema: Schema | None, node: Any) -> None:
    """Raises DataError when reading this node under the schema would lose something."""
    try:
        _check(schema, node, "")
    except RecursionError as e:
        raise DataError("A JSON value is nested too deeply") from e


def _check(schema: Schema | None, node: Any, path: str) -> None:
    if schema is None:
        _check_schemaless(node, path)
        return
    if node is None:
        return
    if schema.name == TIMESTAMP or schema.name in _OTHERWISE_CHECKED:
        if schema.name == TIMESTAMP and type(node) is int:
            _check_integer(Type.INT64, node, path)
        return
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            _check_integer(schema.type, node, path)
        case Type.FLOAT32 | Type.FLOAT64:
            _check_float(schema.type, node, path)
        case Type.BOOLEAN:
            if not isinstance(node, bool):
                raise _loss_error(path, node, "is neither true nor false")
        case Type.STRING | Type.BYTES:
            if type(node) is not str:
                raise _loss_error(path, node, f"is no {_TEXT[schema.type]}")
        case Type.ARRAY:
            if not isinstance(node, list):
                raise _loss_error(path, node, "is no array")
            _check_all(schema.value_schema, ((f"{path}[{i}]", element) for i, element in enumerate(node)))
        case Type.MAP:
            _check_map(schema, node, path)
        case Type.STRUCT:
            _check_struct(schema, node, path)


def _check_all(schema: Schema | None, members: Iterable[tuple[str, Any]]) -> None:
    for path, member in members:
        _check(schema, member, path)


def _check_map(schema: Schema, node: Any, path: str) -> None:
    if isinstance(node, dict):
        _check_all(schema.value_schema, ((f"{path}[{key!r}]", element) for key, element in node.items()))
        return
    entries = [entry for entry in node if isinstance(entry, list) and len(entry) == 2] if isinstance(node, list) else []
    keys: set[str] = set()
    for key, element in entries:
        at = f"{path}[{_shown(key)}]"
        _check(schema.key_schema, key, at)
        _check(schema.value_schema, element, at)
        if repr(key) in keys:
            raise _loss_error(at, element, "is the second value of the same key")
        keys.add(repr(key))


def _check_struct(schema: Schema, node: Any, path: str) -> None:
    if not isinstance(node, dict):
        return  # reading rejects it
    dot = f"{path}." if path else ""
    for field in schema.fields or ():
        if field.name in node:
            _check(field.schema, node[field.name], dot + field.name)
    unknown = [name for name in node if schema.field(name) is None]
    if unknown:
        raise _loss_error(dot + unknown[0], node[unknown[0]], "has no field in the schema and would be left out")


def _check_integer(type_: Type, node: Any, path: str) -> None:
    low, high = INT_RANGES[type_]
    if type(node) is not int and not (type(node) is decimal.Decimal and _is_whole(node)):
        raise _loss_error(path, node, "is no whole number")
    if not low <= node <= high:
        raise _loss_error(path, node, f"is not between {low} and {high}, the range of {type_.value}")


def _is_whole(number: decimal.Decimal) -> bool:
    exponent = number.as_tuple().exponent
    # 1E+400 is whole too, but beyond every range: do not expand it.
    return isinstance(exponent, int) and abs(exponent) < 400 and number == number.to_integral_value()


def _check_float(type_: Type, node: Any, path: str) -> None:
    if type(node) is str and node in NON_FINITE:
        return
    if type(node) is not int and type(node) is not decimal.Decimal:
        raise _loss_error(path, node, "is no number")
    number = to_float32(node) if type_ is Type.FLOAT32 else to_float(node)
    if _rounds(node, number, _FLOAT_TEXTS if type_ is Type.FLOAT32 else _DOUBLE_TEXTS):
        raise _loss_error(path, node, f"has more digits than {type_.value} keeps, or is beyond its range")


def _check_schemaless(node: Any, path: str) -> None:
    if type(node) is int:
        low, high = INT_RANGES[Type.INT64]
        if not low <= node <= high:
            raise _loss_error(path, node, "is beyond 64 bits")
    elif type(node) is decimal.Decimal:
        if _rounds(node, to_float(node), _DOUBLE_TEXTS):
            raise _loss_error(path, node, "has more digits than a double keeps, or is beyond its range")
    elif isinstance(node, list):
        _check_all(None, ((f"{path}[{i}]", element) for i, element in enumerate(node)))
    elif isinstance(node, dict):
        dot = f"{path}." if path else ""
        _check_all(None, ((f"{dot}{name}", element) for name, element in node.items()))


def _rounds(node: int | decimal.Decimal, number: float, texts: Sequence[Callable[[float], str]]) -> bool:
    """Returns whether converting to binary changes the number. 0.1 does not change: written with as many digits as the text, its
    double is 0.1 again. For powers of two, the shortest text and that of Java up to version 18 may have another last digit."""
    if number in (float("inf"), float("-inf")):
        return True
    if any(decimal.Decimal(text(number)) == node for text in texts):
        return False
    digits = max(len(decimal.Decimal(node).as_tuple().digits), 1)
    return decimal.Decimal(format(number, f".{digits - 1}e")) != node


def _shortest_float(number: float) -> float:
    try:
        return shortest_float32(number)
    except OverflowError:
        return number  # a shorter text of the largest float is beyond the range


def _loss_error(path: str, node: Any, why: str) -> DataError:
    where = f'Field "{path}"' if path else "The value"
    return DataError(f"{where}: {_shown(node)} {why} ({STRICT} is on)")


def _shown(node: Any) -> str:
    if node is MISSING:
        return "nothing"
    if isinstance(node, list | dict):
        return f"an {node_type(node).lower()}"
    text = repr(node) if isinstance(node, str) else {True: "true", False: "false"}[node] if isinstance(node, bool) else str(node)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
