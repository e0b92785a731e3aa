"""Schemas of new columns, as recorded from Aiven's connector (in zone America/New_York)."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from typing import Any

import pytest

from connect.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from connect.data.schema import Schema, Type
from connectors.jdbc.options import SinkField, WriteOptions
from connectors.jdbc.sink.ddl import resolve_new_fields

NEW_YORK = zoneinfo.ZoneInfo("America/New_York")
MICRO = Schema(Type.INT64, optional=True, name="io.debezium.time.MicroTimestamp", version=1)


def made(schema: Schema, *, semantic: bool = False, **options: Any) -> Schema:
    (field,) = resolve_new_fields([SinkField("f", schema)], WriteOptions(**options), semantic=semantic)
    return field.schema


@pytest.mark.parametrize(
    ("schema", "default"),
    [
        (timestamp_schema(default=dt.datetime(2024, 2, 29, 12, 34, 56, 789000, dt.UTC)), "2024-02-29 07:34:56.789000+00:00"),
        (date_schema(default=dt.date(2024, 2, 29)), "2024-02-28"),
        (time_schema(default=dt.time(12, 34, 56, 789000)), "07:34:56.789000"),
        (decimal_schema(2, default=None), "None"),
    ],
)
def test_defaults_are_those_of_the_databases_zone(schema: Schema, default: str) -> None:
    assert str(made(schema, zone=NEW_YORK, date_zone=NEW_YORK).default) == default
    assert made(schema).default == schema.default


def test_unknown_schema_names_do_not_affect_a_new_column() -> None:
    assert made(MICRO) == Schema.OPTIONAL_INT64
    assert made(MICRO, semantic=True) is MICRO
    assert made(timestamp_schema()) == timestamp_schema()


def test_fields_that_hold_timestamps_get_a_column_for_timestamps() -> None:
    assert made(Schema.OPTIONAL_STRING, string_timestamps=frozenset("f")) == MICRO
    nano = made(Schema.INT64, string_timestamps=frozenset("f"), timestamp_unit_ns=1)
    assert (nano.name, nano.optional) == ("io.debezium.time.NanoTimestamp", False)
