"""Schemas of new columns: how Confluent's and Aiven's connectors read a field, with the default in the column's time zone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from connect.data.logical import DATE, DECIMAL, TIME, TIMESTAMP
from connect.data.schema import Schema, Type
from connectors.jdbc.dialects.conversion import to_date, to_time, to_wall
from connectors.jdbc.dialects.logical_types import logical_type
from connectors.jdbc.options import SinkField, WriteOptions

_CONNECT_NAMES = (DECIMAL, DATE, TIME, TIMESTAMP)


def resolve_new_fields(fields: Sequence[SinkField], options: WriteOptions, *, semantic: bool) -> list[SinkField]:
    """Returns the fields as new columns store them. ``semantic``: schema names of Debezium count too; Confluent's and Aiven's
    connectors look at the stored type of such a field."""
    return [_resolve(field, options, semantic) for field in fields]


def _resolve(field: SinkField, options: WriteOptions, semantic: bool) -> SinkField:
    schema = field.schema
    if field.name in options.string_timestamps:
        digits = "Micro" if options.timestamp_unit_ns == 1000 else "Nano"
        schema = Schema(Type.INT64, optional=schema.optional, name=f"io.debezium.time.{digits}Timestamp", version=1)
        return replace(field, schema=schema)
    if schema.name is not None and schema.name not in _CONNECT_NAMES and not semantic:
        schema = schema.replace(name=None, version=None, parameters=None)
    if schema.default is not None and schema.name in (DATE, TIME, TIMESTAMP):
        # A row without the field must get the same value as a record without it.
        schema = schema.replace(default=_convert_default(schema, options, field.name))
    return field if schema is field.schema else replace(field, schema=schema)


def _convert_default(schema: Schema, options: WriteOptions, name: str) -> Any:
    what = f"The default of field {name}"
    logical = logical_type(schema, WriteOptions())
    if schema.name == DATE:
        return to_date(logical, options, what)(schema.default)
    if schema.name == TIME:
        convert = to_time(logical, options, what)
        return schema.default if convert is None else convert(schema.default)
    return to_wall(logical, options, what)(schema.default).replace(tzinfo=dt.UTC)
