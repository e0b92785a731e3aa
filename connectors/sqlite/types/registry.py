"""Schemas of columns and decoders of their values, which may be of any storage class, whatever the column declares.

A value is converted without loss or refused (promise 8): a text in an INTEGER column is no integer. ``column.types`` maps such a
column to another kind.
"""

from __future__ import annotations

import base64
import decimal
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from connect.data.logical import DECIMAL
from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connectors.cdc.schema.column_type import ColumnType, Decoder, Inline
from connectors.cdc.schema.variable_scale import VARIABLE_SCALE, variable_scale_struct
from connectors.sqlite.connection import InvalidText
from connectors.sqlite.types import temporal
from connectors.sqlite.types.config import SqliteTypeSettings
from connectors.sqlite.types.declared import DeclaredType, TypeAffinity

ANY: Final = (
    SchemaBuilder.struct()
    .name("connectors.sqlite.Any")
    .version(1)
    .doc("A value of any storage class; exactly one field is set")
    .field("integer", Schema.OPTIONAL_INT64)
    .field("real", Schema.OPTIONAL_FLOAT64)
    .field("text", Schema.OPTIONAL_STRING)
    .field("blob", Schema.OPTIONAL_BYTES)
    .build()
)
_ANY_INDEX: Final = {int: 0, float: 1, str: 2, bytes: 3}
_STORAGE_CLASSES: Final[Mapping[type, str]] = {
    int: "an integer", float: "a real", str: "a text", bytes: "a blob", InvalidText: "a text that is not UTF-8"
}  # fmt: skip
_SHOWN: Final = 60
_EXACT: Final = decimal.Context(prec=2000, traps=[decimal.InvalidOperation, decimal.Inexact])
_DECIMALS: Final = frozenset({"DECIMAL", "NUMERIC", "DEC", "NUMBER", "MONEY"})


def show_value(value: Any) -> str:
    """A value as messages have it."""
    text = value.data.hex() if isinstance(value, InvalidText) else value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def refuse_value(value: Any, what: str) -> DataError:
    """The error for a value of another storage class, or one that does not fit."""
    return DataError(
        f"{show_value(value)} is {_STORAGE_CLASSES.get(type(value), 'a value')} but the column is captured as {what}; "
        "column.types=<schema.table.column>:any captures values of all storage classes"
    )


def integer() -> ColumnType:
    return ColumnType(Schema.INT64, _of_class(int, "an integer"), 0, inline=Inline.INT)


def real() -> ColumnType:
    def decode(value: Any) -> float:
        if type(value) is int and int(float(value)) == value:
            return float(value)
        return float(_of_class(float, "a real")(value))

    return ColumnType(Schema.FLOAT64, decode, 0.0, inline=Inline.FLOAT)


def text(*, accepts_numbers: bool, schema: Schema = Schema.STRING, zero: str = "") -> ColumnType:
    """``accepts_numbers``: the column converts texts that are numbers to numbers, so a number says all."""
    plain = _of_class(str, "a text")

    def decode(value: Any) -> str:
        return number_text(value) if type(value) in (int, float) else plain(value)

    return ColumnType(schema, decode if accepts_numbers else plain, zero, inline=Inline.TEXT)


def number_text(value: float) -> str:
    """The shortest text that reads as the same number, with a point in a real."""
    return repr(value)


def blob(settings: SqliteTypeSettings) -> ColumnType:
    plain = _of_class(bytes, "a blob")
    match settings.binary_mode:
        case "hex":
            return ColumnType(Schema.STRING, lambda value: plain(value).hex(), "")
        case "base64":
            return ColumnType(Schema.STRING, lambda value: base64.b64encode(plain(value)).decode(), "")
        case "base64-url-safe":
            return ColumnType(Schema.STRING, lambda value: base64.urlsafe_b64encode(plain(value)).decode(), "")
    return ColumnType(Schema.BYTES, plain, b"")


def boolean() -> ColumnType:
    def decode(value: Any) -> bool:
        if type(value) is int and value in (0, 1):
            return value == 1
        raise refuse_value(value, "a boolean, which is 0 or 1")

    return ColumnType(Schema.BOOLEAN, decode, False)


def exact_decimal(declared: DeclaredType, settings: SqliteTypeSettings) -> ColumnType:
    """``decimal.handling.mode``. A real stands for the shortest decimal that reads as the same real."""
    match settings.decimal_mode:
        case "string":
            return ColumnType(Schema.STRING, lambda value: f"{_decimal(value):f}", "0")
        case "double":
            return real()
    if declared.length is None:
        return _variable_scale(VARIABLE_SCALE)
    scale = declared.scale or 0
    parameters = {"scale": str(scale), "connect.decimal.precision": str(declared.length)}
    schema = Schema(Type.BYTES, name=DECIMAL, version=1, parameters=parameters)
    unit = decimal.Decimal((0, (1,), -scale))

    def decode(value: Any) -> decimal.Decimal:
        try:
            return _decimal(value).quantize(unit, context=_EXACT)
        except (decimal.Inexact, decimal.InvalidOperation) as e:
            raise refuse_value(value, f"a decimal with {scale} digits after the point") from e

    return ColumnType(schema, decode, decimal.Decimal((0, (0,), -scale)))


def _variable_scale(schema: Schema) -> ColumnType:
    return ColumnType(
        schema,
        lambda value: variable_scale_struct(schema, _decimal(value)),
        Struct(schema, [0, b"\0"]),
        rebuild=_variable_scale,
    )


def _decimal(value: Any) -> decimal.Decimal:
    if type(value) is int:
        return decimal.Decimal(value)
    if type(value) is float and math.isfinite(value):
        found = decimal.Decimal(repr(value))
        # 2.0 is what becomes of a 2 that arrives as a real.
        return decimal.Decimal(int(value)) if value.is_integer() and abs(value) < 1 << 53 else found
    raise refuse_value(value, "a decimal")


def any_value(schema: Schema = ANY) -> ColumnType:
    """A struct with a field for each storage class."""

    def decode(value: Any) -> Struct:
        index = _ANY_INDEX.get(type(value))
        if index is None:
            raise refuse_value(value, "any value")
        fields: list[Any] = [None, None, None, None]
        fields[index] = value
        return Struct(schema, fields)

    return ColumnType(schema, decode, Struct(schema, [0, None, None, None]), rebuild=any_value)


def _of_class(wanted: type, what: str) -> Decoder:
    def decode(value: Any) -> Any:
        if type(value) is wanted:
            return value
        raise refuse_value(value, what)

    return decode


_Maker = Callable[[DeclaredType, SqliteTypeSettings], ColumnType]
_CONVERTS_NUMBERS: Final = frozenset({TypeAffinity.INTEGER, TypeAffinity.REAL, TypeAffinity.NUMERIC})


def _text(declared: DeclaredType, settings: SqliteTypeSettings) -> ColumnType:
    return text(accepts_numbers=declared.affinity in _CONVERTS_NUMBERS)


def _semantic(name: str, zero: str) -> _Maker:
    """A text with a meaning."""
    schema = Schema(Type.STRING, name=f"io.debezium.data.{name}", version=1)
    return lambda declared, settings: text(accepts_numbers=declared.affinity in _CONVERTS_NUMBERS, schema=schema, zero=zero)


def _temporal(maker: Callable[[str], ColumnType]) -> _Maker:
    def make(declared: DeclaredType, settings: SqliteTypeSettings) -> ColumnType:
        return _text(declared, settings) if settings.time_mode == "text" else maker(settings.time_mode)

    return make


KINDS: Final[Mapping[str, _Maker]] = {
    "boolean": lambda declared, settings: boolean(),
    "integer": lambda declared, settings: integer(),
    "real": lambda declared, settings: real(),
    "text": _text,
    "blob": lambda declared, settings: blob(settings),
    "decimal": exact_decimal,
    "date": _temporal(temporal.date),
    "time": _temporal(temporal.time),
    "timestamp": _temporal(temporal.timestamp),
    "json": _semantic("Json", "{}"),
    "uuid": _semantic("Uuid", ""),
    "any": lambda declared, settings: any_value(),
}
"""What columns are captured as, by the names that ``column.types`` uses."""

_BY_NAME: Final = {
    "BOOLEAN": "boolean", "BOOL": "boolean", "DATE": "date", "TIME": "time", "DATETIME": "timestamp", "TIMESTAMP": "timestamp",
    "JSON": "json", "UUID": "uuid", "ANY": "any", "": "any", **dict.fromkeys(_DECIMALS, "decimal"),
}  # fmt: skip
_BY_AFFINITY: Final = {
    TypeAffinity.INTEGER: "integer",
    TypeAffinity.TEXT: "text",
    TypeAffinity.BLOB: "blob",
    TypeAffinity.REAL: "real",
    TypeAffinity.NUMERIC: "text",
}


def column_type(declared: DeclaredType, settings: SqliteTypeSettings, kind: str | None = None) -> ColumnType:
    """Returns the mapping of a column. ``kind`` is that of ``column.types``, if it names the column."""
    found = kind or _BY_NAME.get(declared.name) or _BY_AFFINITY[declared.affinity]
    return KINDS[found](declared, settings)
