"""Tables compared with TABLE_MAP, and built from it."""

from __future__ import annotations

import pytest

from connect.errors import DataError
from connectors.mysql.binlog import TableMap
from connectors.mysql.schema.ddl import DdlContext, parse_create_table
from connectors.mysql.schema.table_map_check import find_difference, table_from_map
from tests.support.binlog_encoder import description, field, high_bits, packed_bytes, packed_int

_COLUMNS = [
    (3, b""), (8, b""), (246, b"\x0a\x02"), (15, b"\x28\x00"), (252, b"\x02"), (252, b"\x03"), (254, b"\xf7\x01"), (18, b"\x03"),
    (16, b"\x04\x01"), (245, b"\x04"), (255, b"\x04"), (13, b""), (254, b"\xfe\x08"),
]  # fmt: skip
_NAMES = ["id", "big", "price", "name", "note", "data", "kind", "at", "bits", "doc", "place", "y", "code"]
_DDL = """CREATE TABLE t (
  id INT NOT NULL, big BIGINT UNSIGNED, price DECIMAL(10,2), name VARCHAR(10) CHARACTER SET utf8mb4,
  note TEXT CHARACTER SET latin1,
  data MEDIUMBLOB, kind ENUM('a','ü') CHARACTER SET latin1, at DATETIME(3), bits BIT(12), doc JSON, place POINT, y YEAR,
  code BINARY(8), PRIMARY KEY (id))"""
_CHARSETS = {255: "utf8mb4", 8: "latin1", 63: "binary"}


def names(*values: str) -> bytes:
    return field(4, b"".join(packed_bytes(value.encode()) for value in values))


_FULL = b"".join(
    [
        field(1, high_bits([0, 1, 0])),
        field(3, packed_int(255) + packed_int(8) + packed_int(63) + packed_int(63)),  # name, note, data, code
        names(*_NAMES),
        field(6, packed_int(2) + packed_bytes(b"a") + packed_bytes(b"\xfc")),
        field(7, packed_int(1)),
        field(8, packed_int(0)),
        field(11, packed_int(8)),
    ]
)


def table_map(
    columns: list[tuple[int, bytes]] = _COLUMNS, optional: bytes = _FULL, *, nullable: list[int] | None = None
) -> TableMap:
    flags = [0] + [1] * (len(columns) - 1) if nullable is None else nullable
    return TableMap(description(columns, optional=optional, schema="d", nullable=flags), is_mariadb=False)


def test_table_equals_its_table_map() -> None:
    assert find_difference(parse_create_table(_DDL, "d"), table_map()) is None
    assert find_difference(parse_create_table(_DDL, "d"), table_map(optional=b"")) is None


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("UNSIGNED, price", "UNSIGNED NOT NULL, price", "column big of table d.t is NOT NULL; the binary log has the opposite"),
        ("id INT NOT NULL", "id BIGINT NOT NULL", "column id of table d.t is BIGINT; the binary log has LONG"),
        ("big BIGINT UNSIGNED", "big BIGINT", "column big of table d.t is BIGINT; the binary log has an unsigned number"),
        (
            "id INT NOT NULL",
            "id INT UNSIGNED NOT NULL",
            "column id of table d.t is INT UNSIGNED; the binary log has a signed number",
        ),
        ("big BIGINT", "huge BIGINT", "column huge of table d.t is big in the binary log"),
        ("DECIMAL(10,2)", "DECIMAL(10,3)", "column price of table d.t is DECIMAL(10,3); the binary log has DECIMAL(10,2)"),
        ("DATETIME(3)", "DATETIME", "column at of table d.t has 0 fractional digits; the binary log has 3"),
        ("BIT(12)", "BIT(11)", "column bits of table d.t is BIT(11); the binary log has BIT(12)"),
        ("'a','ü'", "'a','ü','c'", "column kind of table d.t has 3 values; the binary log has 2"),
        ("doc JSON", "doc JSON, extra INT", f"table d.t has 14 columns; the binary log has 13: {', '.join(_NAMES)}"),
        ("data MEDIUMBLOB", "data INT", "column data of table d.t is INT; the binary log has BLOB"),
        ("place POINT", "place JSON", "column place of table d.t is JSON; the binary log has GEOMETRY"),
    ],
)
def test_first_difference_is_named(old: str, new: str, difference: str) -> None:
    assert find_difference(parse_create_table(_DDL.replace(old, new), "d"), table_map()) == difference


def test_primary_key_may_be_nullable_neither_in_the_table_nor_in_the_log() -> None:
    assert find_difference(parse_create_table("CREATE TABLE t (id INT PRIMARY KEY)", "d"), table_map([(3, b"")], b"")) is None


def test_hidden_columns_of_system_versioning_are_expected() -> None:
    table = parse_create_table("CREATE TABLE t (a INT) WITH SYSTEM VERSIONING", "d", DdlContext(is_mariadb=True))
    columns = [(3, b""), (17, b"\x06"), (17, b"\x06")]
    assert find_difference(table, table_map(columns, b"", nullable=[1, 0, 0])) is None
    assert find_difference(table, table_map(columns[:1], b"", nullable=[1])) == "table d.t has 3 columns; the binary log has 1"


def test_full_metadata_makes_a_table() -> None:
    table = table_from_map(table_map(), _CHARSETS.get, lambda data, charset: data.decode(charset))
    declared = parse_create_table(_DDL, "d")
    assert table.key == ("id",)
    assert find_difference(table, table_map()) is None
    for built, column in zip(table.columns, declared.columns, strict=True):
        assert (built.name, built.position, built.jdbc_type) == (column.name, column.position, column.jdbc_type)
        assert (built.type_name, built.charset, built.optional) == (column.type_name, column.charset, column.optional)
        assert built.enum_values == column.enum_values
        if column.name not in ("name",):  # characters have their length in bytes
            assert (built.length, built.scale) == (column.length, column.scale)


def test_minimal_metadata_and_unknown_collations_are_refused() -> None:
    with pytest.raises(DataError, match="needs binlog_row_metadata=FULL"):
        table_from_map(table_map(optional=b""), _CHARSETS.get, lambda data, _: data.decode())
    with pytest.raises(DataError, match=r"column name of d\.t has collation 255, which is unknown"):
        table_from_map(table_map(), {8: "latin1"}.get, lambda data, _: data.decode())
