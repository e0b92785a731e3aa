"""Debezium's custom converters for MySQL and MariaDB: which columns they choose, and their schemas, defaults, and values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from connect.data.schema import Schema, Type
from connect.errors import DataError
from connectors.cdc.schema.filters import Filters
from connectors.mysql.config import parse_config
from connectors.mysql.schema.model import Column, MySqlTable
from connectors.mysql.schema.table_rows import CapturedMySqlColumn, MySqlTableRows
from connectors.mysql.types import MySqlTypeSettings

_CONFIG = {"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.server.id": "5",
           "schema.history.internal.kafka.topic": "h", "schema.history.internal.kafka.bootstrap.servers": "b:1"}  # fmt: skip
_PACKAGE = "io.debezium.connector.binlog.converters"


def captured(type_name: str, value: Any = None, *, class_: str, name: str = "c", config: dict[str, str], **members: Any) -> Any:
    """A column of table shop.t with a converter, as it is captured."""
    column = Column(name, 1, type_name, type_name, 0, **{"optional": False, **members})
    settings = parse_config({**_CONFIG, "converters": "x", "x.type": f"{_PACKAGE}.{class_}", **config})
    rows = MySqlTableRows(MySqlTable("shop", "t", (column,), (), charset="latin1"), settings, Filters(settings.capture))
    return rows.columns[0]


def boolean(type_name: str, length: int | None = 1, **more: Any) -> CapturedMySqlColumn:
    config = {f"x.{key.replace('_', '.')}": more.pop(key) for key in ("selector", "length_checker") if key in more}
    found: CapturedMySqlColumn = captured(type_name, class_="TinyIntOneToBooleanConverter", config=config, length=length, **more)
    return found


@pytest.mark.parametrize(
    ("type_name", "length", "settings", "expected"),
    [
        ("TINYINT", 1, {}, Type.BOOLEAN),
        ("TINYINT UNSIGNED", 1, {}, Type.BOOLEAN),
        ("TINYINT", 4, {}, Type.INT8),
        ("TINYINT UNSIGNED", None, {}, Type.INT16),
        ("TINYINT UNSIGNED", None, {"length_checker": "false"}, Type.BOOLEAN),
        ("SMALLINT", 1, {"length_checker": "false"}, Type.INT16),
        ("TINYINT", 1, {"selector": r"SHOP\.t\.C, other.*"}, Type.BOOLEAN),
        ("TINYINT", 1, {"selector": r"shop\.t"}, Type.INT8),
        ("TINYINT", 1, {"selector": r"t\.c"}, Type.INT8),
    ],
)  # fmt: skip
def test_columns_of_tinyint_1_are_booleans(type_name: str, length: int | None, settings: dict[str, str], expected: Type) -> None:
    assert boolean(type_name, length, **settings).text.schema.type is expected


def test_booleans_have_equal_values_in_snapshot_and_stream_and_converted_defaults() -> None:
    column = boolean("TINYINT", has_default=True, default="1", optional=True)
    assert column.text.schema == Schema(Type.BOOLEAN, optional=True, default=True)
    for number, expected in ((0, False), (1, True), (2, True), (-1, True)):
        assert column.text.type.decode(str(number)) is expected
        assert column.convert(number) is expected
        assert column.reader.convert is not None
        assert column.reader.convert(number) is expected
    assert boolean("TINYINT").text.zero is False
    assert boolean("TINYINT", has_default=True, default="1").text.zero is True


def sink_type(type_name: str, kind: str, **more: Any) -> CapturedMySqlColumn:
    config = {f"x.selector.{kind}": "shop.t.c"}
    if "as_double" in more:
        config["x.treat.real.as.double"] = more.pop("as_double")
    found: CapturedMySqlColumn = captured(type_name, class_="JdbcSinkDataTypesConverter", config=config, **more)
    return found


@pytest.mark.parametrize(
    ("type_name", "kind", "more", "schema", "values"),
    [
        ("TINYINT", "boolean", {}, Schema.INT16, [("1", 1, 1), ("0", 0, 0), ("-1", -1, 0), ("5", 5, 1)]),
        ("BOOLEAN", "boolean", {}, Schema.INT16, [("1", 1, 1), ("0", 0, 0), ("-1", -1, 1)]),
        ("VARCHAR", "boolean", {}, Schema.INT16, [("TRUE", "TRUE", 1), ("2", "2", 1), ("no", "no", 0), ("-1", "-1", 0)]),
        ("FLOAT", "real", {}, Schema.FLOAT64, [("0.10000000149011612", 0.10000000149011612, 0.10000000149011612)]),
        ("DOUBLE", "real", {}, Schema.FLOAT64, [("0.1", 0.1, 0.1)]),
        ("DOUBLE", "real", {"as_double": "false"}, Schema.FLOAT32, [("0.1", 0.1, 0.10000000149011612)]),
        ("INT", "real", {}, Schema.FLOAT64, [("7", 7, 7.0)]),
    ],
)  # fmt: skip
def test_types_for_a_jdbc_sink(
    type_name: str, kind: str, more: dict[str, Any], schema: Schema, values: list[tuple[str, Any, Any]]
) -> None:
    column = sink_type(type_name, kind, charset="utf8mb4", **more)
    assert column.text.schema == schema
    for text, raw, expected in values:
        found = column.text.type.decode(text.encode() if column.is_bytes else text)
        assert found == expected
        assert type(found) is type(expected)
        assert column.convert(raw.encode() if isinstance(raw, str) else raw) == expected


@pytest.mark.parametrize(
    ("type_name", "members", "charset", "text", "expected"),
    [
        ("VARCHAR", {"length": 5, "charset": "utf8mb4"}, "utf8mb4", "a\u00e9", "a\u00e9"),
        ("VARCHAR", {"length": 5}, "latin1", b"\xe9", "\u00e9"),
        ("NCHAR", {"length": 5}, "utf8mb3", "a", "a"),
        ("ENUM", {"enum_values": ("a", "b")}, "latin1", "b", "b"),
        ("INT", {}, None, "5", "5"),
        ("FLOAT", {}, None, "0.10000000149011612", "0.1"),
        ("DOUBLE", {}, None, "1e7", "1.0E7"),
        ("DECIMAL", {"length": 9, "scale": 2}, None, "1.50", "1.50"),
        ("BLOB", {}, None, "a\u00e9".encode(), "a\u00e9"),
    ],
)  # fmt: skip
def test_texts_have_the_character_set_of_their_column(
    type_name: str, members: dict[str, Any], charset: str | None, text: Any, expected: str
) -> None:
    column = sink_type(type_name, "string", **members)
    parameters = None if charset is None else {"__debezium.source.column.character_set": charset}
    assert column.text.schema == Schema(Type.STRING, parameters=parameters)
    assert column.text.type.decode(text) == expected


def test_values_without_a_text_or_number_are_errors() -> None:
    with pytest.raises(DataError, match=r"column shop\.t\.c, converter x: .*codec can't decode byte 0xff"):
        sink_type("BLOB", "string").text.type.decode(b"\xff")
    with pytest.raises(DataError, match="a value of type bytes has no number; change the selector"):
        sink_type("BLOB", "real").text.type.decode(b"1")
    with pytest.raises(DataError, match="a value of type bytes has no INT16; change the selector"):
        sink_type("BLOB", "boolean").text.type.decode(b"1")


def test_selectors_that_are_not_set_choose_nothing() -> None:
    column = captured("BOOLEAN", class_="JdbcSinkDataTypesConverter", config={})
    assert column.text.schema == Schema.BOOLEAN


def test_precise_numbers_become_doubles() -> None:
    column = sink_type("DECIMAL", "real", length=5, scale=1)
    assert MySqlTypeSettings().decimal_mode == "precise"
    assert column.convert(15) == 1.5
    assert column.text.type.decode("1.5") == float(Decimal("1.5"))
