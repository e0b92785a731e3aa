"""Schemas of dates, times, and durations as structs of their parts (``time.precision.mode=structured``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connectors.cdc.schema.column_type import ColumnType

_INT8, _INT32 = Schema.OPTIONAL_INT8, Schema.OPTIONAL_INT32
_DATE = (("year", _INT32), ("month", _INT8), ("day", _INT8))
_TIME = (("hour", _INT8), ("minute", _INT8), ("second", _INT8), ("nanos", _INT32))
_OFFSET = ("offsetSeconds", _INT32)
_SPECIAL, _PRECISION = ("specialValue", Schema.OPTIONAL_STRING), ("precision", _INT32)


def _schema(name: str, *fields: tuple[str, Schema]) -> Schema:
    builder = SchemaBuilder.struct().name(f"io.debezium.time.{name}").version(1)
    for field, schema in fields:
        builder = builder.field(field, schema)
    return builder.build()


STRUCTURED_DATE = _schema("StructuredDate", *_DATE, _SPECIAL)
STRUCTURED_TIME = _schema("StructuredTime", *_TIME, _PRECISION)
STRUCTURED_TIMESTAMP = _schema("StructuredTimestamp", *_DATE, *_TIME, _SPECIAL, _PRECISION)
STRUCTURED_ZONED_TIMESTAMP = _schema(
    "StructuredZonedTimestamp", *_DATE, *_TIME, _OFFSET, ("zoneId", Schema.OPTIONAL_STRING), _SPECIAL, _PRECISION
)
STRUCTURED_ZONED_TIME = _schema("StructuredZonedTime", *_TIME, _OFFSET, _PRECISION)
STRUCTURED_DURATION = _schema(
    "StructuredDuration",
    *((name, _INT32) for name in ("years", "months", "days", "hours", "minutes")),
    ("seconds", Schema.OPTIONAL_INT64),
    ("nanos", _INT32),
    _PRECISION,
)


def structured_type(schema: Schema, parts: Callable[[str], list[Any]], zero: str) -> ColumnType:
    """A mapping whose values are structs of the ``parts`` of a text."""
    return ColumnType(
        schema,
        lambda text: Struct(schema, parts(text)),
        Struct(schema, parts(zero)),
        rebuild=lambda other: structured_type(other, parts, zero),
    )
