"""Types of new columns: as recorded from Debezium 3.6.0.Final, or types without its losses."""

from __future__ import annotations

from typing import Any

import pytest

from connect.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from connect.data.schema import Schema, Type
from connectors.jdbc.debezium_sink.types import SOURCE_LENGTH, SOURCE_TYPE, build_sink_field


def named(name: str, type: Type, **parameters: str) -> Schema:
    return Schema(type, optional=True, name=f"io.debezium.{name}", version=1, parameters=parameters or None)


def told(type: Type, source: str, length: str | None = None) -> Schema:
    parameters = {SOURCE_TYPE: source} | ({SOURCE_LENGTH: length} if length else {})
    return Schema(type, optional=True, parameters=parameters)


DECIMAL = decimal_schema(2, optional=True)
RECORDED: list[tuple[Schema, Any, Any]] = [
    (DECIMAL, "decimal(38,2)", "decimal(38,2)"),
    (DECIMAL.replace(parameters={"scale": "2", "connect.decimal.precision": "10"}), "decimal(10,2)", "decimal(10,2)"),
    (time_schema(optional=True), "time(6)", "time(6)"),
    (timestamp_schema(optional=True), "timestamp(6)", "datetime(6)"),
    (named("time.Time", Type.INT32), "time(6)", "time(6)"),
    (named("time.MicroTime", Type.INT64), "time(6)", "time(6)"),
    (named("time.Timestamp", Type.INT64), "timestamp(6)", "datetime(6)"),
    (named("time.Timestamp", Type.INT64, **{SOURCE_LENGTH: "3"}), "timestamp(3)", "datetime(3)"),
    (named("time.ZonedTimestamp", Type.STRING), "timestamp(6) with time zone", "timestamp(6)"),
    (named("time.ZonedTime", Type.STRING), "time(6) with time zone", None),
    (named("time.Interval", Type.STRING), None, "longtext"),
    (named("data.Uuid", Type.STRING), None, "longtext"),
    (Schema.OPTIONAL_STRING, None, "longtext"),
    (Schema(Type.BYTES, optional=True), None, "longblob"),
    (Schema(Type.BOOLEAN, optional=True), None, "boolean"),
    (told(Type.STRING, "VARCHAR", "20"), "varchar(20)", "varchar(20)"),
    (told(Type.STRING, "NVARCHAR", "20"), "varchar(20)", "varchar(20)"),
    (told(Type.STRING, "BPCHAR", "5"), "char(5)", "char(5)"),
    (told(Type.STRING, "TEXT"), None, "longtext"),
    (told(Type.STRING, "MONEY"), "money", "longtext"),
    (told(Type.INT64, "OID"), "oid", None),
    (told(Type.INT64, "BIGINT UNSIGNED ZEROFILL"), None, "bigint unsigned"),
    (told(Type.INT16, "TINYINT", "1"), None, "tinyint(1)"),
    (told(Type.BYTES, "VARBINARY", "12"), None, "varbinary(12)"),
    (told(Type.BYTES, "BLOB"), None, "blob"),
]


@pytest.mark.parametrize(("schema", "postgres", "mysql"), RECORDED)
def test_types_are_those_of_the_original(schema: Schema, postgres: str | None, mysql: str | None) -> None:
    """None is the type that the dialect has for it anyway."""
    assert build_sink_field("c", schema, "postgresql", "public", is_key=False).sql_type == postgres
    assert build_sink_field("c", schema, "mysql", "public", is_key=False).sql_type == mysql
    assert build_sink_field("c", schema, "sqlite", "public", is_key=False).sql_type is None


@pytest.mark.parametrize("scale", [0, 40, -2])
def test_decimals_that_debezium_would_round_or_reject_are_kept(scale: int) -> None:
    kept = build_sink_field("c", decimal_schema(scale), "postgresql", "public", is_key=False).sql_type
    assert kept == ("decimal(38,0)" if scale == 0 else None)


def test_mysql_dialect_chooses_the_type_of_text_keys() -> None:
    assert build_sink_field("c", Schema.STRING, "mysql", "public", is_key=True).sql_type is None
    assert build_sink_field("c", told(Type.STRING, "VARCHAR", "30"), "mysql", "public", is_key=True).sql_type == "varchar(30)"


def test_dates_and_times_as_text_are_written_as_they_are() -> None:
    for name in ("IsoDate", "IsoTime", "IsoTimestamp", "Interval"):
        field = build_sink_field("c", named(f"time.{name}", Type.STRING), "postgresql", "public", is_key=False)
        assert field.schema.name is None
    interval = named("time.Interval", Type.STRING, **{SOURCE_TYPE: "INTERVAL"})
    assert build_sink_field("c", interval, "postgresql", "public", is_key=False).schema.name == "io.debezium.time.Interval"


def test_nanoseconds_become_microseconds_where_columns_hold_no_more() -> None:
    nanos = named("time.NanoTimestamp", Type.INT64)
    assert build_sink_field("c", nanos, "postgresql", "public", is_key=False).schema.name == "io.debezium.time.MicroTimestamp"
    assert build_sink_field("c", nanos, "sqlite", "public", is_key=False).schema is nanos


def test_geometry_types_are_in_the_postgis_schema() -> None:
    geometry = Schema(Type.STRUCT, name="io.debezium.data.geometry.Geometry", fields=[("wkb", Schema.BYTES)])
    assert build_sink_field("c", geometry, "postgresql", 'gi"s', is_key=False).sql_type == '"gi""s".geometry'


def test_dialect_gets_the_source_type() -> None:
    assert build_sink_field("c", told(Type.STRING, "INET"), "postgresql", "public", is_key=False).source_type == "INET"
    assert build_sink_field("c", date_schema(), "postgresql", "public", is_key=False).source_type is None
