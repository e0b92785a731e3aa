"""Defaults of columns in Iceberg's schemas: what rows have that were written before the column was added.

Format: "JSON single-value serialization" in appendix D of Iceberg's specification.
"""

from __future__ import annotations

import datetime
import math
from typing import Any

import pyarrow as pa

from connect.errors import ConnectError


def default_to_json(value: pa.Scalar) -> Any:
    """The JSON of a default; None for a value that cannot be one: nested, not finite, or outside the years 1 to 9999."""
    try:
        return _json_of(value)
    except (OverflowError, ValueError):
        return None


def _json_of(value: pa.Scalar) -> Any:
    type_ = value.type
    t = pa.types
    if t.is_nested(type_) or not value.is_valid:
        return None
    if t.is_boolean(type_) or t.is_integer(type_) or t.is_string(type_):
        return value.as_py()
    if t.is_floating(type_):
        number = value.as_py()
        return number if math.isfinite(number) else None
    if t.is_decimal(type_):
        return f"{value.as_py():f}"
    if t.is_binary(type_) or t.is_fixed_size_binary(type_):
        return value.as_py().hex()
    if t.is_date(type_):
        return value.as_py().isoformat()
    if t.is_timestamp(type_):
        text = value.cast(pa.timestamp("us")).as_py().isoformat(timespec="microseconds")
        return f"{text}+00:00" if type_.tz else text
    return None


def default_value(node: Any, type_: pa.DataType, name: str) -> pa.Scalar:
    """The value of a default in a schema. Raises ConnectError."""
    t = pa.types
    try:
        if t.is_nested(type_):
            raise ValueError("the column is nested")
        if t.is_fixed_size_binary(type_) and isinstance(node, str) and "-" in node:
            return pa.scalar(bytes.fromhex(node.replace("-", "")), type_)  # a UUID
        if t.is_binary(type_) or t.is_fixed_size_binary(type_):
            return pa.scalar(bytes.fromhex(node), type_)
        if t.is_timestamp(type_) and type_.tz:
            return pa.scalar(node, pa.string()).cast(type_)
        if t.is_time(type_):
            return pa.scalar(datetime.time.fromisoformat(node), type_)
        if t.is_temporal(type_) or t.is_decimal(type_):
            return pa.scalar(node, pa.string()).cast(type_)
        return pa.scalar(node, type_)
    except (pa.ArrowException, ValueError, TypeError) as e:
        raise ConnectError(
            f"column {name} has the initial default {node!r}, which cannot be read: {e}. Rewrite the data files with Spark "
            "(CALL <catalog>.system.rewrite_data_files), and drop the default"
        ) from e
