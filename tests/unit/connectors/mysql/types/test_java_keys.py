"""Keys of rows as Debezium stores them, and types in schemas."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import pytest

from connect.java.serialization import parse_java_array
from connectors.cdc.schema.column_mapping import source_parameters
from connectors.mysql.schema.model import Column
from connectors.mysql.types import MYSQL_JAVA_KEYS, key_type_name, source_type

_UUID = "123e4567-e89b-12d3-a456-426655440000"


@pytest.mark.parametrize(
    ("type_name", "text", "value"),
    [
        ("TINYINT", "-1", -1),
        ("MEDIUMINT UNSIGNED", "16777215", 16777215),
        ("INT", "7", 7),
        ("INT UNSIGNED", "4294967295", 4294967295),
        ("BIGINT", "-9223372036854775808", -9223372036854775808),
        ("BIGINT UNSIGNED", "18446744073709551615", 18446744073709551615),
        ("BIGINT UNSIGNED", "0", 0),
        ("VARCHAR", "é", "é"),
        ("ENUM", "x", "x"),
        ("BINARY", "00ff", b"\0\xff"),
        ("UUID", _UUID, uuid.UUID(_UUID)),
        ("DOUBLE", "1.5", 1.5),
        ("DATE", "2024-02-29", dt.date(2024, 2, 29)),
        ("TIME", "-838:59:59", -dt.timedelta(seconds=3020399)),
        ("TIME", "00:00:01.000002", dt.timedelta(seconds=1, microseconds=2)),
    ],
)
def test_keys_survive_their_form_in_offsets(type_name: str, text: str, value: Any) -> None:
    name = key_type_name(Column("id", 1, type_name, type_name, 0))
    stored = MYSQL_JAVA_KEYS.write((text,), [name])
    assert stored is not None
    assert parse_java_array(bytes.fromhex(stored)) == [value]
    assert MYSQL_JAVA_KEYS.parse(stored) == (text,)


def test_decimal_key() -> None:
    stored = MYSQL_JAVA_KEYS.write(("-12.30",), ["DECIMAL"])
    assert MYSQL_JAVA_KEYS.parse(stored) == ("-12.30",)


@pytest.mark.parametrize(
    ("type_name", "text"), [("DATE", "0000-00-00"), ("DATETIME", "2024-01-01 00:00:00"), ("TIMESTAMP", "2024-01-01 00:00:00")]
)
def test_keys_without_a_java_value_are_not_stored(type_name: str, text: str) -> None:
    assert MYSQL_JAVA_KEYS.write((text,), [key_type_name(Column("id", 1, type_name, type_name, 91))]) is None


@pytest.mark.parametrize(
    ("column", "parameters", "is_text"),
    [
        (Column("c", 1, "INT", "INT", 4), {"type": "INT"}, False),
        (Column("c", 1, "NUMERIC", "NUMERIC", 2, 5, 2), {"type": "NUMERIC", "length": "5", "scale": "2"}, False),
        (Column("c", 1, "varchar", "VARCHAR", 12, 128), {"type": "VARCHAR", "length": "128"}, True),
        (Column("c", 1, "ENUM", "ENUM", 1, 1), {"type": "ENUM", "length": "1"}, True),
        (Column("c", 1, "BLOB", "BLOB", 2004, comment="photo"), {"type": "BLOB", "comment": "photo"}, False),
    ],
)
def test_types_in_schemas(column: Column, parameters: dict[str, str], is_text: bool) -> None:
    source = source_type(column)
    prefix = "__debezium.source.column."
    assert source_parameters("c", source) == {f"{prefix}{name}": value for name, value in {**parameters, "name": "c"}.items()}
    assert source.is_text is is_text
