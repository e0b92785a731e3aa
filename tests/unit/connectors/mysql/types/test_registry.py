"""Which schema a column has, by the name of its type."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from connect.data.schema import Schema, Type
from connect.errors import DataError
from connectors.mysql.schema.model import Column
from connectors.mysql.types import column_type
from connectors.mysql.types.registry import sql_type
from tests.support.mysql_columns import DEFAULT, mapped_column

mapped = partial(mapped_column, optional=False)


@pytest.mark.parametrize(
    ("names", "schema"),
    [
        (("TINYINT", "INT1", "TINYINT SIGNED", "TINYINT(4)"), Schema.INT8),
        (("TINYINT UNSIGNED", "INT1 UNSIGNED ZEROFILL", "TINYINT ZEROFILL", "SMALLINT", "INT2"), Schema.INT16),
        (("SMALLINT UNSIGNED", "INT2 UNSIGNED", "MEDIUMINT", "INT3", "MIDDLEINT", "MEDIUMINT UNSIGNED"), Schema.INT32),
        (("INT", "INTEGER", "INT4", "int(11)"), Schema.INT32),
        (("INT UNSIGNED", "INTEGER UNSIGNED ZEROFILL", "INT4 UNSIGNED", "BIGINT", "INT8", "BIGINT UNSIGNED"), Schema.INT64),
        (("FLOAT", "FLOAT4", "FLOAT UNSIGNED"), Schema.FLOAT32),
        (("DOUBLE", "FLOAT8", "DOUBLE PRECISION", "REAL", "DOUBLE UNSIGNED ZEROFILL"), Schema.FLOAT64),
        (("BOOL", "BOOLEAN", "BIT"), Schema.BOOLEAN),
        (("CHAR", "CHARACTER", "VARCHAR", "CHARACTER VARYING", "CHAR VARYING", "VARCHAR BINARY"), Schema.STRING),
        (("TEXT", "LONG", "LONG VARCHAR"), Schema.STRING),
        (("TINYTEXT", "MEDIUMTEXT", "LONGTEXT", "LONGTEXT BINARY", "TEXT COMPRESSED", "INET4", "INET6"), Schema.STRING),
        (("NCHAR", "NATIONAL CHAR", "NVARCHAR", "NCHAR VARCHAR", "NATIONAL CHARACTER VARYING", "NCHAR BINARY"), Schema.STRING),
        (("BINARY", "VARBINARY", "BLOB", "TINYBLOB", "MEDIUMBLOB", "LONGBLOB", "LONG VARBINARY", "CHAR BYTE"), Schema.BYTES),
    ],
)  # fmt: skip
def test_synonyms_and_attributes(names: tuple[str, ...], schema: Schema) -> None:
    assert {name: mapped(name).schema for name in names} == dict.fromkeys(names, schema)


@pytest.mark.parametrize(
    ("type_name", "type_", "name", "version"),
    [
        ("JSON", Type.STRING, "io.debezium.data.Json", 1),
        ("ENUM", Type.STRING, "io.debezium.data.Enum", 1),
        ("SET", Type.STRING, "io.debezium.data.EnumSet", 1),
        ("UUID", Type.STRING, "io.debezium.data.Uuid", 1),
        ("YEAR", Type.INT32, "io.debezium.time.Year", 1),
        ("POINT", Type.STRUCT, "io.debezium.data.geometry.Point", 1),
        ("VECTOR", Type.ARRAY, "io.debezium.data.FloatVector", 1),
        ("DATE", Type.INT32, "io.debezium.time.Date", 1),
        ("TIME", Type.INT64, "io.debezium.time.MicroTime", 1),
        ("DATETIME", Type.INT64, "io.debezium.time.Timestamp", 1),
        ("TIMESTAMP", Type.STRING, "io.debezium.time.ZonedTimestamp", 1),
        *(
            (name, Type.STRUCT, "io.debezium.data.geometry.Geometry", 2)
            for name in (
                "GEOMETRY", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION",
                "GEOMCOLLECTION",
            )
        ),
    ],
)  # fmt: skip
def test_semantic_types(type_name: str, type_: Type, name: str, version: int) -> None:
    schema = mapped(type_name).schema
    assert (schema.type, schema.name, schema.version) == (type_, name, version)


def test_decimals_without_dimensions_have_those_of_the_server() -> None:
    assert mapped("NUMERIC").schema.parameters == {"scale": "0", "connect.decimal.precision": "10"}
    assert mapped("DEC", length=12, scale=3).schema.parameters == {"scale": "3", "connect.decimal.precision": "12"}


def test_float_with_many_digits_or_decimal_places_is_a_double() -> None:
    assert mapped("FLOAT", length=24).schema == Schema.FLOAT32
    assert mapped("FLOAT", length=25).schema == mapped("FLOAT", length=7, scale=4).schema == Schema.FLOAT64


def test_other_types_are_not_captured() -> None:
    assert column_type(Column("c", 1, "XMLTYPE", "XMLTYPE", 0), DEFAULT) is None


def test_field_is_optional_with_default_and_comment() -> None:
    column = Column("c", 1, "INT", "INT", 4, has_default=True, default="7", comment="quantity")
    found = column_type(column, DEFAULT)
    commented = column_type(column, replace(DEFAULT, includes_comments=True))
    assert found is not None
    assert commented is not None
    assert found.schema == Schema(Type.INT32, optional=True, default=7)
    assert commented.schema == Schema(Type.INT32, optional=True, default=7, doc="quantity")


def test_character_set_is_that_of_the_column_then_of_the_table() -> None:
    assert mapped("TEXT", charset="gbk").text.decode("产".encode("gbk")) == "产"
    own = column_type(Column("c", 1, "TEXT", "TEXT", 12, charset="gbk"), DEFAULT, "utf8mb4")
    assert own is not None
    assert own.text.decode("产".encode("gbk")) == "产"
    assert mapped("TEXT").is_bytes is False  # UTF-8
    assert mapped("NATIONAL VARCHAR", charset="gbk").is_bytes is False


def test_character_set_without_a_codec_is_refused_by_name() -> None:
    with pytest.raises(DataError, match=r"column c: the character set swe7 cannot be decoded; the known ones are ascii, big5"):
        mapped("TEXT", charset="swe7")


def test_type_without_synonyms() -> None:
    type_ = sql_type(Column("c", 1, "int unsigned zerofill", "INT", 4))
    assert (type_.name, type_.unsigned, type_.zerofill) == ("INT", True, True)
    assert sql_type(Column("c", 1, "BINARY", "BINARY", -2)).name == "BINARY"


@pytest.mark.parametrize(
    ("type_name", "mode", "placeholder"),
    [
        ("TEXT", "bytes", "__debezium_unavailable_value"),
        ("JSON", "bytes", "__debezium_unavailable_value"),
        ("BLOB", "bytes", b"__debezium_unavailable_value"),
        ("BLOB", "hex", b"__debezium_unavailable_value".hex()),
        ("BLOB", "base64", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="),
        ("INT", "bytes", None),
    ],
)
def test_placeholders_of_unavailable_values(type_name: str, mode: str, placeholder: Any) -> None:
    assert mapped(type_name, replace(DEFAULT, binary_mode=mode)).text.placeholder == placeholder
