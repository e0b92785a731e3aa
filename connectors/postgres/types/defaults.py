"""Converts column defaults to schema defaults, by Debezium's rules.

A literal becomes the default; a function (a sequence, now()) becomes the type's zero because its value is unknown; any other
expression gives no default.
"""

from __future__ import annotations

import re
from typing import Any

from connect.data.schema import Type
from connect.data.struct import Struct, validate_value
from connect.errors import DataError
from connectors.cdc.schema.column_type import ColumnType
from connectors.postgres.types.catalog_type import CatalogType

_LITERAL = re.compile(r"'((?:[^']|'')*)'(?:::[\w .\"\[\](),]+)?", re.DOTALL)
_RAW = re.compile(r"\(?(-?[0-9][0-9.eE+-]*|true|false)\)?(?:::[\w .\"(),]+)?")
_FUNCTION = re.compile(r"[(]?[A-Za-z0-9_.]+\(.*\)", re.DOTALL)
_NOW = frozenset({"current_timestamp", "current_time", "current_date", "localtime", "localtimestamp"})


_TYPES = frozenset(
    (
        "bit", "bool", "bpchar", "date", "float4", "float8", "int2", "int4", "int8", "interval", "json", "jsonb", "numeric",
        "text", "time", "timestamp", "timestamptz", "uuid", "varbit", "varchar", "xml",
    )
)  # fmt: skip


def may_have_default(pg_type: CatalogType) -> bool:
    """Whether Debezium gives columns of a type defaults: those of some built-in types, and enums."""
    return pg_type.kind == "e" or (pg_type.schema == "pg_catalog" and pg_type.name in _TYPES)


def parse_default(expression: str | None, column_type: ColumnType) -> Any:
    """Parses the text of ``pg_get_expr``; None for no default."""
    if expression is None or expression.startswith("NULL"):
        return None
    if isinstance(column_type.zero, Struct) or column_type.schema.type in (Type.ARRAY, Type.MAP):
        return None  # a struct cannot be a default (KAFKA-12694)
    if quote_literal := _LITERAL.fullmatch(expression):
        return _decoded(quote_literal.group(1).replace("''", "'"), column_type)
    if raw := _RAW.fullmatch(expression):
        return _decoded({"true": "t", "false": "f"}.get(raw.group(1), raw.group(1)), column_type)
    if _FUNCTION.match(expression) or expression.lower() in _NOW:
        return column_type.zero
    return None


def _decoded(text: str, column_type: ColumnType) -> Any:
    try:
        value = column_type.decode(_in_scale(text, column_type))
        validate_value(column_type.schema, value)
    except (DataError, ValueError, IndexError, ArithmeticError):
        return None  # a stored default may differ from the form in which the server prints values
    return value


def _in_scale(text: str, column_type: ColumnType) -> str:
    """Adds fraction digits to a decimal default: the server prints ``0`` for a numeric(12,2)."""
    scale = int((column_type.schema.parameters or {}).get("scale", column_type.default_scale))
    if scale <= 0:
        return text
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction.ljust(scale, '0')}" if fraction.isdigit() or not fraction else text
