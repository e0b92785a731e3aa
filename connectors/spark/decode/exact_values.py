"""Reads values from parsed JSON without loss: a value that the field's type cannot hold raises DataError (promise 8).

JsonConverter is as lenient as Apache's: it reads 300 as int8 as 44, ``"Infinity"`` and ``"a"`` as 0.0, -0.0 as 0.0, and 5 as a
string as null. A table must not hold those, so the Spark sink reads JSON itself. Parsed JSON is None, bool, str, int, Decimal,
list, or dict, and a float for NaN and infinities without quotes (see :func:`parse_document`).
"""

from __future__ import annotations

import contextlib
import decimal
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from connect.converters.json.value_reader import NON_FINITE, decode_base64
from connect.data.logical import decimal_to_bytes
from connect.data.schema import Schema
from connect.errors import DataError
from connectors.spark.decode import arrow_casts
from connectors.spark.decode.number_text import exact_double, exact_float

Reader = Callable[[Any], Any]
"""Reads one node, also None. Raises DataError, whose ``field`` is the path inside the value."""

_MAX_SHOWN = 60
_MAX_EXPONENT = 400
_DECIMAL_TEXT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""What Arrow's reader takes."""


def parse_document(data: bytes) -> Any:
    """The JSON document of these bytes, with all digits of its numbers; None for no bytes. Raises DataError."""
    if not data.strip():
        return None
    try:
        return parse_text(data.decode(json.detect_encoding(data)))
    except ValueError as e:
        raise DataError(f"not JSON: {e}") from e


def parse_text(text: str) -> Any:
    """Like :func:`parse_document`, of text, which must not be empty."""
    try:
        return _DECODER.decode(text)
    except RecursionError as e:
        raise DataError("JSON is nested too deeply") from e
    except decimal.InvalidOperation as e:
        raise DataError("the exponent of a number is too large") from e
    except ValueError as e:
        raise DataError(f"not JSON: {e}") from e


def _integer(text: str) -> int | decimal.Decimal:
    return decimal.Decimal("-0") if text == "-0" else int(text)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"field {twice} occurs twice in one object")
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=_members, parse_float=decimal.Decimal, parse_int=_integer)


def show(node: Any) -> str:
    """The node for messages."""
    if isinstance(node, dict | list):
        return "an object" if isinstance(node, dict) else "an array"
    text = json.dumps(node, ensure_ascii=False) if isinstance(node, str | bool) else str(node)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def read_integer(low: int, high: int, type_name: str) -> Reader:
    """Reads whole numbers of a range; 1.0 is whole."""

    def read(node: Any) -> int | None:
        if node is None:
            return None
        number = node
        if type(node) is decimal.Decimal and _is_whole(node):
            number = int(node)
        if type(number) is not int:
            raise DataError(f"{show(node)} is not a whole number, which {type_name} needs")
        if not low <= number <= high:
            raise DataError(f"{show(node)} is not between {low} and {high}, the range of {type_name}")
        return number

    return read


def _is_whole(number: decimal.Decimal) -> bool:
    exponent = number.as_tuple().exponent
    return isinstance(exponent, int) and abs(exponent) < _MAX_EXPONENT and number == number.to_integral_value()


def read_floating(type_name: str, exact: Callable[[Any], float | None]) -> Reader:
    """Reads numbers, and the names of non-finite ones."""

    def read(node: Any) -> float | None:
        if node is None:
            return None
        if type(node) is str:
            if node in NON_FINITE:
                return NON_FINITE[node]
        elif not isinstance(node, bool | dict | list):
            value = exact(node)
            if value is None:
                raise DataError(f"{type_name} cannot hold the number {show(node)} exactly")
            return value
        raise DataError(f"{show(node)} is not a number, which {type_name} needs")

    return read


read_double = read_floating("double", exact_double)
read_float = read_floating("float", exact_float)


def read_boolean(node: Any) -> bool | None:
    if node is None or isinstance(node, bool):
        return node
    raise DataError(f"{show(node)} is neither true nor false")


def read_string(node: Any) -> str | None:
    if node is None or isinstance(node, str):
        return node
    raise DataError(f"{show(node)} is not a string")


def read_bytes(node: Any) -> bytes | None:
    """Reads bytes in base64."""
    text = read_string(node)
    if text is None:
        return None
    try:
        return decode_base64(text)
    except ValueError as e:
        raise DataError(f"bytes are not in base64: {e}") from e


def read_unscaled_decimal(scale: int) -> Reader:
    """Reads decimals, in base64 or as numbers, as the bytes of their unscaled value."""

    def read(node: Any) -> bytes | None:
        if isinstance(node, int | decimal.Decimal) and not isinstance(node, bool):
            return _unscaled(decimal.Decimal(node), scale)
        return read_bytes(node)

    return read


def _unscaled(number: decimal.Decimal, scale: int) -> bytes:
    exact = decimal.Context(prec=1100, traps=[decimal.Inexact, decimal.InvalidOperation])
    try:
        return decimal_to_bytes(number.quantize(decimal.Decimal((0, (1,), -scale)), context=exact), scale)
    except decimal.DecimalException as e:
        raise DataError(f"a Decimal of scale {scale} cannot hold the number {show(number)} exactly") from e


def read_decimal(node: Any) -> decimal.Decimal | None:
    """Reads decimals from numbers or their text, of which Python would also take ``1_000``, blanks, and digits of any script."""
    if node is None:
        return None
    is_number = isinstance(node, int | decimal.Decimal) and not isinstance(node, bool)
    if is_number or (isinstance(node, str) and _DECIMAL_TEXT.fullmatch(node)):
        with contextlib.suppress(decimal.InvalidOperation):  # the exponent is too large
            return decimal.Decimal(node)
    raise DataError(f"{show(node)} is not a decimal")


def read_variable_decimal(node: Any) -> str | None:
    """Reads ``{scale, value}`` as all digits."""
    if node is None:
        return None
    if not isinstance(node, dict):
        raise DataError(f"{show(node)} is not a VariableScaleDecimal")
    scale = inside("scale", read_integer(-(1 << 31), (1 << 31) - 1, "int32"), node.get("scale"))
    unscaled = inside("value", read_bytes, node.get("value"))
    if scale is None or not unscaled:
        raise DataError("a VariableScaleDecimal needs scale and value")
    return arrow_casts.decimal_text(unscaled, scale)


def holds_values(node: Any) -> bool:
    """Whether the node is or contains a value, so that its type is known. An empty array is one of strings."""
    if isinstance(node, dict):
        return any(map(holds_values, node.values()))
    if isinstance(node, list):
        items = [item for item in node if item is not None]
        return not items or any(map(holds_values, items))
    return node is not None


def read_struct(fields: Sequence[tuple[str, Reader]], *, refuses_others: bool = False) -> Reader:
    """Reads objects as their known fields. Values of other fields are not read, or refused."""
    names = {name for name, _ in fields}

    def read(node: Any) -> dict[str, Any] | None:
        if node is None:
            return None
        if not isinstance(node, dict):
            raise DataError(f"{show(node)} is not an object")
        if refuses_others:
            for name in node.keys() - names:
                if holds_values(node[name]):
                    raise in_field(name, DataError("the column has no such field"))
        values = {}
        for name, reader in fields:
            try:
                values[name] = reader(node.get(name))
            except DataError as e:
                raise in_field(name, e) from e
        return values

    return read


def read_list(element: Reader) -> Reader:
    """Reads arrays."""

    def read(node: Any) -> list[Any] | None:
        if node is None:
            return None
        if not isinstance(node, list):
            raise DataError(f"{show(node)} is not an array")
        return [inside(f"[{at}]", element, item) for at, item in enumerate(node)]

    return read


def read_map(key: Reader, item: Reader) -> Reader:
    """Reads objects, or arrays of pairs, which JsonConverter writes when keys are not strings, as pairs."""

    def read(node: Any) -> list[tuple[Any, Any]] | None:
        if node is None:
            return None
        pairs = list(node.items()) if isinstance(node, dict) else node
        if not isinstance(pairs, list) or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
            raise DataError(f"{show(node)} is neither an object nor an array of pairs")
        found = [(inside(f"[{show(k)}]", key, k), inside(f"[{show(k)}]", item, v)) for k, v in pairs]
        keys = [repr(k) for k, _ in found]
        if len(set(keys)) < len(keys):
            raise DataError(f"a map has the key {next(k for k in keys if keys.count(k) > 1)} twice")
        return found

    return read


def or_default(reader: Reader, default: Any) -> Reader:
    """Reads a default, in its JSON form, for None."""
    return lambda node: reader(default if node is None else node)


def or_refused(reader: Reader, schema: Schema) -> Reader:
    """Refuses None, for a schema that requires a value."""

    def read(node: Any) -> Any:
        if node is None:
            raise null_refused(schema)
        return reader(node)

    return read


def null_refused(schema: Schema) -> DataError:
    """The error for null in the place of a value that the schema requires."""
    return DataError(
        f"null, and the schema requires a value of type {schema.type.value}: correct the producer, or make it optional"
    )


def inside(name: str, reader: Reader, node: Any) -> Any:
    """Reads a part of a value, so that errors have its path."""
    try:
        return reader(node)
    except DataError as e:
        raise in_field(name, e) from e


def in_field(name: str, error: DataError) -> DataError:
    """The error for a part of the value in which it occurred."""
    found = DataError(error.message)
    rest = error.field or ""
    found.field = f"{name}{'.' if rest and not rest.startswith('[') else ''}{rest}"
    return found


def prefixed(error: DataError) -> str:
    """The error's text, after the field that it concerns."""
    return f"field {error.field}: {error.message}" if error.field else error.message
