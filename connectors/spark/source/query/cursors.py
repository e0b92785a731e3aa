"""Values of the cursor column as texts, in offsets and in the conditions of queries, and their places among equal ones."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import ConfigError
from connectors.spark.plan.evolution import sql_type
from connectors.spark.tables.files.partition_values import value_text

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
    """The value as Spark reads it in the session time zone UTC, and as ``parse_text`` of partition values does."""
    if pa.types.is_timestamp(value.type):
        value = value.cast(pa.timestamp("us"))
    return value_text(value) or ""


def count_equal(cursors: pa.Array, place: int, *, before: int) -> int:
    """How many rows up to and with a place have its value; ``before`` counts those of earlier batches that have the first value.
    The values are sorted."""
    first = pc.index(cursors, cursors[place]).as_py()
    return int(place - first + 1 + (before if first == 0 else 0))
