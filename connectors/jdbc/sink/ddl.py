"""What a new column is made from: a field's schema, as the originals read it, with its default as the column has to hold it."""

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

_OWN = (DECIMAL, DATE, TIME, TIMESTAMP)


def created_fields(fields: Sequence[SinkField], options: WriteOptions, *, semantic: bool) -> list[SinkField]:
    """Fields to create columns for. ``semantic`` says that names other than Connect's own mean something (Debezium's do); to
    Confluent's and Aiven's connectors a field of such a type is what its stored type says."""
    return [_created(field, options, semantic) for field in fields]


def _created(field: SinkField, options: WriteOptions, semantic: bool) -> SinkField:
    schema = field.schema
    if field.name in options.string_timestamps:
        digits = "Micro" if options.timestamp_unit_ns == 1000 else "Nano"
        made = Schema(Type.INT64, optional=schema.optional, name=f"io.debezium.time.{digits}Timestamp", version=1)
        return replace(field, schema=made)
    if schema.name is not None and schema.name not in _OWN and not semantic:
        schema = schema.replace(name=None, version=None, parameters=None)
    if schema.default is not None and schema.name in (DATE, TIME, TIMESTAMP):
        # Rows without the field must have what a record without it would get.
        schema = schema.replace(default=_shown_in_zone(schema, options, field.name))
    return field if schema is field.schema else replace(field, schema=schema)


def _shown_in_zone(schema: Schema, options: WriteOptions, name: str) -> Any:
    what = f"The default of field {name}"
    logical = logical_type(schema, WriteOptions())
    if schema.name == DATE:
        return to_date(logical, options, what)(schema.default)
    if schema.name == TIME:
        convert = to_time(logical, options, what)
        return schema.default if convert is None else convert(schema.default)
    return to_wall(logical, options, what)(schema.default).replace(tzinfo=dt.UTC)
