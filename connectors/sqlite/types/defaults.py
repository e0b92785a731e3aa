"""Defaults of columns as defaults of schemas: a literal becomes one, a function the type's zero, an expression none."""

from __future__ import annotations

import re
from typing import Any, Final

from connect.data.schema import Type
from connect.data.struct import Struct, validate_value
from connectors.cdc.schema.column_type import CONVERSION_ERRORS, ColumnType

_INTEGER: Final = re.compile(r"[+-]?\d+")
_REAL: Final = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?")
_TEXT: Final = re.compile(r"'((?:[^']|'')*)'", re.DOTALL)
_BLOB: Final = re.compile(r"[xX]'((?:[0-9A-Fa-f]{2})*)'")
_FUNCTIONS: Final = frozenset({"CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME"})


def parse_default(expression: str | None, column_type: ColumnType) -> Any:
    """Parses the text of PRAGMA table_xinfo; None for no default."""
    if expression is None or isinstance(column_type.zero, Struct) or column_type.schema.type is Type.STRUCT:
        return None  # a struct cannot be a default (KAFKA-12694)
    text = expression.strip()
    if text.upper() in _FUNCTIONS:
        return column_type.zero
    value = _literal(text)
    if value is None:
        return None
    try:
        decoded = column_type.decode(value)
        validate_value(column_type.schema, decoded)
    except CONVERSION_ERRORS:
        return None  # the column converts it to another value
    return decoded


def _literal(text: str) -> Any:
    if _INTEGER.fullmatch(text):
        return int(text)
    if _REAL.fullmatch(text):
        return float(text)
    if match := _TEXT.fullmatch(text):
        return match[1].replace("''", "'")
    if match := _BLOB.fullmatch(text):
        return bytes.fromhex(match[1])
    return {"TRUE": 1, "FALSE": 0}.get(text.upper())
