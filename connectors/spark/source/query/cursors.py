"""Values of the cursor column as texts, in offsets and in the conditions of queries, and their places among equal ones."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import ConfigError
from connectors.spark.plan.evolution import sql_type

COLUMN = "cursor.column"


def check_cursor_type(name: str, type_: pa.DataType, metadata: Mapping[str, object]) -> None:
    """Raises ConfigError unless the values of a column have one order and exact texts."""
    t = pa.types
    is_text = type_ == pa.string()
    if not (t.is_integer(type_) or t.is_decimal(type_) or t.is_date32(type_) or t.is_timestamp(type_) or is_text):
        raise ConfigError.invalid(
            COLUMN,
            name,
            f"the column is {sql_type(type_)}; expected an integer, a DECIMAL, DATE, TIMESTAMP, TIMESTAMP_NTZ, or STRING. CAST "
            "it in source.query",
        )
    if is_text and any("collation" in key.lower() for key in metadata):
        raise ConfigError.invalid(
            COLUMN, name, "texts that differ may be equal in its collation; use COLLATE UTF8_BINARY in source.query"
        )


def cursor_text(value: pa.Scalar) -> str:
    """The value as Spark reads it in the session time zone UTC."""
    if pa.types.is_timestamp(value.type):
        return str(value.cast(pa.timestamp("us")).cast(pa.string()).as_py())
    if pa.types.is_decimal(value.type):
        return f"{value.as_py():f}"
    return str(value.cast(pa.string()).as_py())


def parse_cursor(text: str, type_: pa.DataType) -> pa.Scalar:
    """The value of a text. Raises ArrowInvalid if it is none of this type."""
    if pa.types.is_timestamp(type_):
        return pa.scalar(text.removesuffix("Z"), pa.string()).cast(pa.timestamp("us")).cast(type_)
    return pa.scalar(text, pa.string()).cast(type_)


def count_equal(cursors: pa.Array, place: int, *, before: int) -> int:
    """How many rows up to and with a place have its value; ``before`` counts those of earlier batches that have the first value.
    The values are sorted."""
    first = pc.index(cursors, cursors[place]).as_py()
    return int(place - first + 1 + (before if first == 0 else 0))
