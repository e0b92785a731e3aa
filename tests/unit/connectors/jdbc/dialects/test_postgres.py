"""Columns that sinks create in PostgreSQL, and the classification of its errors."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from connect.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from connect.data.schema import Schema, SchemaBuilder, Type
from connect.errors import DataError
from connectors.jdbc.dialects.postgres import PostgresDialect
from connectors.jdbc.dialects.postgres.errors import classify_error, error_message
from connectors.jdbc.errors import ErrorKind
from connectors.jdbc.options import SinkField
from connectors.jdbc.table_name import TableName
from connectors.jdbc.urls.connection_url import parse_connection_url

DIALECT = PostgresDialect(parse_connection_url("jdbc:postgresql://localhost/shop", "u", "p", {}))


def named(type: Type, name: str, **parameters: str) -> Schema:
    return Schema(type, name=name, version=1, parameters=parameters)


def array(element: Schema) -> Schema:
    return Schema(Type.ARRAY, value_schema=element)


STRUCT = SchemaBuilder.struct().field("a", Schema.INT32).build()
MAP = Schema(Type.MAP, key_schema=Schema.STRING, value_schema=Schema.STRING)
TIME, DATA = "io.debezium.time.", "io.debezium.data."
TYPES: list[tuple[Schema, str]] = [
    (Schema.INT8, "SMALLINT"), (Schema.INT16, "SMALLINT"), (Schema.INT32, "INT"), (Schema.INT64, "BIGINT"),
    (Schema.FLOAT32, "REAL"), (Schema.FLOAT64, "DOUBLE PRECISION"), (Schema.BOOLEAN, "BOOLEAN"), (Schema.STRING, "TEXT"),
    (Schema.BYTES, "BYTEA"), (decimal_schema(2), "DECIMAL"), (date_schema(), "DATE"), (time_schema(), "TIME"),
    (timestamp_schema(), "TIMESTAMP"), (array(Schema.INT8), "SMALLINT[]"), (array(Schema.STRING), "TEXT[]"),
    (array(array(Schema.INT32)), "INT[][]"), (array(decimal_schema(2)), "DECIMAL[]"), (array(STRUCT), "JSONB"), (MAP, "JSONB"),
    (STRUCT, "JSONB"),
    (named(Type.INT32, TIME + "Date"), "DATE"), (named(Type.INT64, TIME + "MicroTimestamp"), "TIMESTAMP"),
    (named(Type.STRING, TIME + "ZonedTimestamp"), "TIMESTAMPTZ"), (named(Type.INT64, TIME + "MicroTime"), "TIME"),
    (named(Type.STRING, TIME + "ZonedTime"), "TIMETZ"), (named(Type.INT64, TIME + "MicroDuration"), "INTERVAL"),
    (named(Type.STRING, TIME + "Interval"), "INTERVAL"), (named(Type.INT32, TIME + "Year"), "INT"),
    (named(Type.STRING, DATA + "Uuid"), "UUID"), (named(Type.STRING, DATA + "Json"), "JSON"),
    (named(Type.STRING, DATA + "Xml"), "XML"), (named(Type.STRING, DATA + "Enum", allowed="a,b"), "TEXT"),
    (named(Type.BYTES, DATA + "Bits", length="7"), "BIT(7)"),
    (named(Type.BYTES, DATA + "Bits", length="2147483647"), "BIT VARYING"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "expected"), TYPES)
def test_each_schema_has_a_column_type(schema: Schema, expected: str) -> None:
    assert DIALECT.column_type(SinkField("f", schema)) == expected


@pytest.mark.parametrize(
    ("source_type", "schema", "expected"),
    [
        ("JSONB", Schema.STRING, "JSONB"),
        ("inet", Schema.STRING, "INET"),
        ("TSTZRANGE", Schema.OPTIONAL_STRING, "TSTZRANGE"),
        ("JSONB", named(Type.STRING, DATA + "Json"), "JSONB"),
        ("BIGINT UNSIGNED", Schema.INT64, "BIGINT"),
        ("uuid", Schema.BYTES, "BYTEA"),
        ("int); DROP TABLE t; --", Schema.STRING, "TEXT"),
    ],
)
def test_a_text_column_has_the_type_of_the_source_column(source_type: str, schema: Schema, expected: str) -> None:
    assert DIALECT.column_type(SinkField("f", schema, source_type=source_type)) == expected


@pytest.mark.parametrize(
    ("schema", "default", "expected"),
    [
        (Schema.INT32, -5, "-5"),
        (Schema.BOOLEAN, True, "TRUE"),
        (Schema.FLOAT64, float("nan"), "'nan'"),
        (Schema.STRING, "it's \\ ü", "'it''s \\ ü'"),
        (Schema.BYTES, b"\x00\xff", "'\\x00ff'"),
        (decimal_schema(2), Decimal("1.50"), "1.50"),
        (date_schema(), dt.date(2024, 2, 29), "'2024-02-29'"),
        (time_schema(), dt.time(1, 2, 3), "'01:02:03'"),
        (timestamp_schema(), dt.datetime(2024, 2, 29, tzinfo=dt.UTC), "'2024-02-29 00:00:00'"),
        (array(Schema.OPTIONAL_STRING), ["a'b", None], """'{"a''b",NULL}'"""),
        (MAP, {"a": "b"}, """'{"a":"b"}'"""),
    ],
)
def test_defaults_become_literals(schema: Schema, default: Any, expected: str) -> None:
    assert DIALECT.literal(SinkField("f", schema.replace(default=default))) == expected


def test_a_default_that_cannot_be_stored_is_rejected() -> None:
    with pytest.raises(DataError, match=r"The default of field f holds the character U\+0000"):
        DIALECT.literal(SinkField("f", Schema.STRING.replace(default="\0")))


def test_create_table_matches_confluents_connector() -> None:
    fields = [SinkField("k", Schema.INT32, True), SinkField("v", Schema.OPTIONAL_STRING)]
    assert DIALECT.create_table(TableName("t", "s"), fields).text == (
        'CREATE TABLE "s"."t" (\n"k" INT NOT NULL,\n"v" TEXT NULL,\nPRIMARY KEY("k"))'
    )


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("57P01", ErrorKind.CONNECTION),
        ("57P02", ErrorKind.CONNECTION),
        ("57P03", ErrorKind.CONNECTION),
        ("08006", ErrorKind.CONNECTION),
        ("25P03", ErrorKind.CONNECTION),
        ("40P01", ErrorKind.TRANSIENT),
        ("40001", ErrorKind.TRANSIENT),
        ("55P03", ErrorKind.TRANSIENT),
        ("53300", ErrorKind.TRANSIENT),
        ("53100", ErrorKind.TRANSIENT),
        ("25006", ErrorKind.TRANSIENT),
        ("57014", ErrorKind.TIMEOUT),
        ("28P01", ErrorKind.AUTHENTICATION),
        ("3D000", ErrorKind.AUTHENTICATION),
        ("23505", ErrorKind.ROW),
        ("23502", ErrorKind.ROW),
        ("22001", ErrorKind.ROW),
        ("22P02", ErrorKind.ROW),
        ("P0001", ErrorKind.ROW),
        ("44000", ErrorKind.ROW),
        ("54000", ErrorKind.ROW),
        ("21000", ErrorKind.ROW),
        ("42P01", ErrorKind.TABLE),
        ("42703", ErrorKind.TABLE),
        ("42P07", ErrorKind.TABLE),
        ("3F000", ErrorKind.TABLE),
        ("42501", ErrorKind.STATEMENT),
        ("42601", ErrorKind.STATEMENT),
        ("428C9", ErrorKind.STATEMENT),
        ("0A000", ErrorKind.STATEMENT),
        ("XX000", ErrorKind.STATEMENT),
    ],
)
def test_errors_are_classified_by_sqlstate(state: str, expected: ErrorKind) -> None:
    class Refused(psycopg.DatabaseError):
        sqlstate = state

    assert classify_error(Refused("words")) is expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            psycopg.OperationalError('connection failed: FATAL:  password authentication failed for user "u"'),
            ErrorKind.AUTHENTICATION,
        ),
        (psycopg.OperationalError('connection failed: FATAL:  database "none" does not exist'), ErrorKind.AUTHENTICATION),
        (psycopg.OperationalError("connection failed: fe_sendauth: no password supplied"), ErrorKind.AUTHENTICATION),
        (psycopg.OperationalError("connection failed: FATAL:  sorry, too many clients already"), ErrorKind.TRANSIENT),
        (psycopg.OperationalError("connection failed: FATAL:  the database system is starting up"), ErrorKind.CONNECTION),
        (psycopg.OperationalError("connection failed: Connection refused"), ErrorKind.CONNECTION),
        (psycopg.OperationalError("consuming input failed: server closed the connection unexpectedly"), ErrorKind.CONNECTION),
        (psycopg.InterfaceError("the connection is closed"), ErrorKind.CONNECTION),
        (psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"), ErrorKind.ROW),
        (psycopg.ProgrammingError("the query has 0 placeholders"), ErrorKind.STATEMENT),
        (ConnectionResetError("reset"), ErrorKind.CONNECTION),
        (ValueError("what"), ErrorKind.STATEMENT),
    ],
)
def test_errors_without_sqlstate_are_classified_by_class_or_message(error: Exception, expected: ErrorKind) -> None:
    assert classify_error(error) is expected


def test_error_messages_are_one_line() -> None:
    assert error_message(psycopg.OperationalError("connection failed:\n\tno route\n")) == "connection failed: no route"
    assert "lower tasks.max" in error_message(psycopg.OperationalError('FATAL: too many connections for role "shop"'))
    assert error_message(ValueError()) == "ValueError"
