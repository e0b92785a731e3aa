"""JSON of values that their columns cannot hold: exact text of parsed JSON and of Arrow values."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from connectors.spark.decode.variant import Date, Float, Timestamp, decode_variant, is_variant

RESCUED = "__sluice_rescued"
"""Column of an image: by row, a JSON object of the fields that did not fit when the record was decoded, or null."""


def object_text(members: Mapping[str, str]) -> str:
    """A JSON object of names and the JSON texts of their values."""
    return "{" + ",".join(f"{_quote(name)}:{text}" for name, text in members.items()) + "}"


def join_objects(texts: Sequence[str]) -> str:
    """One JSON object with the members of several ones, none of which is empty."""
    return "{" + ",".join(text[1:-1] for text in texts) + "}"


def node_text(node: Any) -> str:
    """The text of parsed JSON or of a Python value, with all digits of its numbers. Bytes become base64, times ISO 8601, and
    numbers that JSON does not have become text."""
    match node:
        case dict():
            return object_text({str(name): node_text(value) for name, value in node.items()})
        case list() | tuple():
            return "[" + ",".join(map(node_text, node)) + "]"
        case decimal.Decimal():
            return str(node) if node.is_finite() else _quote(str(node))
        case float():
            return repr(node) if math.isfinite(node) else _quote({"inf": "Infinity", "-inf": "-Infinity"}.get(str(node), "NaN"))
        case bytes():
            return _quote(base64.b64encode(node).decode())
        case dt.datetime() | dt.date():
            return _quote(node.isoformat())
        case _:
            return json.dumps(node, ensure_ascii=False)


def scalar_text(scalar: pa.Scalar) -> str:
    """The JSON of an Arrow value. Python has no times outside the years 1 to 9999, so they become days or microseconds since
    1970."""
    type_ = scalar.type
    if not scalar.is_valid:
        return "null"
    if is_variant(type_):
        return variant_text(decode_variant(*(scalar[name].as_py() for name in ("metadata", "value"))))
    if pa.types.is_struct(type_):
        return object_text({name: scalar_text(member) for name, member in scalar.items()})
    if pa.types.is_map(type_):
        return "[" + ",".join(scalar_text(entry) for entry in scalar.values) + "]"
    if pa.types.is_list(type_):
        return "[" + ",".join(scalar_text(item) for item in scalar.values) + "]"
    try:
        return node_text(scalar.as_py())
    except (ValueError, OverflowError):
        return str(scalar.value)


def variant_text(node: Any, time_text: Callable[[pa.Scalar], str] = scalar_text) -> str:
    """The JSON of a VARIANT's node, with its dates and timestamps as ``time_text`` writes them."""
    match node:
        case dict():
            return object_text({name: variant_text(member, time_text) for name, member in node.items()})
        case list():
            return "[" + ",".join(variant_text(item, time_text) for item in node) + "]"
        case Date():
            return time_text(pa.scalar(node.days, pa.int32()).cast(pa.date32()))
        case Timestamp():
            return time_text(pa.scalar(node.micros, pa.int64()).cast(pa.timestamp("us", "UTC" if node.is_instant else None)))
        case Float():
            return scalar_text(pa.scalar(node.value, pa.float32()))
        case decimal.Decimal():
            return f"{node:f}"
    return node_text(node)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
