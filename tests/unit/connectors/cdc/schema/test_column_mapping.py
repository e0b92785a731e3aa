"""Masks, hashes, truncation, and types in schemas: the values and parameters of Debezium."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest

from connect.errors import ConfigError
from connectors.cdc.schema.filters import Filters
from connectors.postgres.config import parse_config
from connectors.postgres.schema.catalog import CapturedColumn, CapturedTable
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.types.catalog_type import CatalogType
from connectors.postgres.types.source_type import source_type

CONFIG = {"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d"}
TYPES = {
    20: CatalogType(20, "pg_catalog", "int8", "b", 0, 0, -1),
    23: CatalogType(23, "pg_catalog", "int4", "b", 0, 0, -1),
    25: CatalogType(25, "pg_catalog", "text", "b", 0, 0, -1),
    701: CatalogType(701, "pg_catalog", "float8", "b", 0, 0, -1),
    1042: CatalogType(1042, "pg_catalog", "bpchar", "b", 0, 0, -1),
    1043: CatalogType(1043, "pg_catalog", "varchar", "b", 0, 0, -1),
    1009: CatalogType(1009, "pg_catalog", "_text", "b", 25, 0, -1),
    1083: CatalogType(1083, "pg_catalog", "time", "b", 0, 0, -1),
    1114: CatalogType(1114, "pg_catalog", "timestamp", "b", 0, 0, -1),
    1184: CatalogType(1184, "pg_catalog", "timestamptz", "b", 0, 0, -1),
    1700: CatalogType(1700, "pg_catalog", "numeric", "b", 0, 0, -1),
    17: CatalogType(17, "pg_catalog", "bytea", "b", 0, 0, -1),
    90000: CatalogType(90000, "public", "price", "d", 0, 1700, ((8 << 16) | 3) + 4),
    90001: CatalogType(90001, "public", "color", "e", 0, 0, -1, ("red", "blue")),
    90002: CatalogType(90002, "public", "citext", "b", 0, 0, -1),
    90003: CatalogType(90003, "public", "vector", "b", 0, 0, -1),
}
VARCHAR_20 = 24


def column(name: str, oid: int, typmod: int = -1, *, not_null: bool = False, default: str | None = None) -> CapturedColumn:
    return CapturedColumn(name, oid, typmod, not_null, default)


def table(columns: list[CapturedColumn], key: tuple[str, ...] = (), keys: dict[str, str] | None = None) -> TableRows:
    configured = parse_config(CONFIG | (keys or {}))
    captured = CapturedTable(1, "public", "t", tuple(columns), key, "d", "r", -1)
    return TableRows(captured, TYPES, configured, Filters(configured.capture))


def message(*values: str | None) -> bytes:
    return b"".join(
        b"n" if v is None else b"t" + len(v.encode()).to_bytes(4, "big") + v.encode() for v in values
    ) + b"\0\0\0\0"  # fmt: skip


def decode(rows: TableRows, *values: str | None) -> list[Any]:
    return rows.decode_new(message(*values), 0)


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        # Debezium's PostgresConnectorIT expects these two.
        ("column.mask.hash.SHA-256.with.salt.CzQMA0cB5K", "test", "8e68c68edbbac316dfe2"),
        ("column.mask.hash.SHA-256.with.salt.CzQMA0cB5K", "hello", "b4d39ab0d198fb4cac8b"),
        ("column.mask.hash.v2.SHA-256.with.salt.s", "x", "9740c9dcdb4487d8cd63"),
        ("column.mask.hash.v2.MD5.with.salt.a.b", "x", "a2efb6ce65c4fcf37eee"),
        ("column.mask.with.5.chars", "anything", "*****"),
        ("column.mask.with.0.chars", "anything", ""),
        ("column.truncate.to.3.chars", "abcdef", "abc"),
        ("column.truncate.to.3.chars", "äöüß", "äöü"),
        ("column.truncate.to.3.chars", "a\U0001f600bc", "a\U0001f600"),
        ("column.truncate.to.2.chars", "a\U0001f600bc", "a"),
        ("column.truncate.to.20.chars", "abcdef", "abcdef"),
    ],
)
def test_value_of_a_text_column(key: str, text: str, expected: str) -> None:
    rows = table([column("c", 1043, VARCHAR_20)], keys={key: "public.T.c"})
    assert decode(rows, text) == [expected]


def test_mask_hides_nulls_and_the_others_keep_them() -> None:
    columns = [column(name, 25) for name in "abc"]
    keys = {
        "column.mask.with.3.chars": r".*\.a",
        "column.mask.hash.SHA-256.with.salt.s": r".*\.b",
        "column.truncate.to.1.chars": r".*\.c",
    }
    assert decode(table(columns, keys=keys), None, None, None) == ["***", None, None]


@pytest.mark.parametrize("text", ["", "plain", "ä", "€\U0001f600", "x" * 70_000])
def test_first_version_of_hashes_reads_the_serialized_text_of_java(text: str) -> None:
    data = re.sub(
        "[\U00010000-\U0010ffff]",
        lambda m: "".join(chr(int.from_bytes(m[0].encode("utf-16-be")[i : i + 2], "big")) for i in (0, 2)),
        text,
    ).encode("utf-8", "surrogatepass")
    size = b"\x74" + len(data).to_bytes(2, "big") if len(data) < 65_536 else b"\x7c" + len(data).to_bytes(8, "big")
    rows = table([column("c", 25)], keys={"column.mask.hash.SHA-512.with.salt.s": "public.t.c"})
    assert decode(rows, text) == [hashlib.sha512(b"s\xac\xed\x00\x05" + size + data).hexdigest()]


def test_columns_that_are_not_texts_are_only_marked_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    rows = table([column("n", 23), column("c", 90002), column("e", 90001)], keys={"column.mask.with.2.chars": r"public\.t\..*"})
    assert decode(rows, "7", "open", "red") == [7, "open", "**"]
    assert [(field.schema.parameters or {}).get("masked") for field in rows.schemas.value.fields or ()] == ["true"] * 3
    assert "column public.t.c of type citext is not masked" in caplog.text


def test_record_key_keeps_its_values() -> None:
    columns = [column("id", 25, not_null=True), column("b", 17, not_null=True), column("v", 25)]
    keys = {"column.mask.with.2.chars": r".*\.(id|v)", "column.truncate.to.1.chars": r".*\.b"}
    rows = table(columns, ("id", "b"), keys=keys)
    new = decode(rows, "secret", "\\x010203", "other")
    assert new == ["**", b"\x01", "**"]
    assert rows.key_of(new) == ["secret", b"\x01\x02\x03"]
    assert rows.schemas.key is not None
    assert [(f.name, f.schema.parameters) for f in rows.schemas.key.fields or ()] == [("id", None), ("b", None)]


def test_old_row_that_holds_the_key_alone_has_masked_zeros() -> None:
    columns = [
        column("id", 23, not_null=True),
        column("v", 25, not_null=True),
        column("d", 25, not_null=True, default="'x'::text"),
    ]
    rows = table(columns, ("id",), keys={"column.mask.with.2.chars": r".*\.v", "column.truncate.to.0.chars": r".*\.d"})
    assert rows.decode_key_only(message("1", None, None), 0) == [1, "**", ""]


def test_unavailable_value_is_masked_and_still_filled_from_the_old_row() -> None:
    rows = table(
        [column("v", 25), column("t", 25)],
        keys={"column.mask.hash.MD5.with.salt.s": r".*\.v", "column.truncate.to.4.chars": r".*\.t"},
    )
    new = rows.decode_before_fill(b"uu\0\0\0\0", 0)
    assert new[1] == "__de"
    old = decode(rows, "before", "before")
    rows.fill_unchanged(new, old)
    assert new == old


def test_first_rule_in_the_order_of_debezium_applies() -> None:
    keys = {
        "column.mask.hash.v2.MD5.with.salt.s": "public.t.c",
        "column.propagate.source.type": "public.t.c",
        "column.mask.with.1.chars": "public.t.c",
        "column.truncate.to.2.chars": "public.t.c",
    }
    rows = table([column("c", 25)], keys=keys)
    assert decode(rows, "abc") == ["ab"]
    assert rows.columns[0].schema.parameters == {"truncateLength": "2"}


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (column("c", 23), ("INT4", "10", "0")),
        (column("c", 23, default="nextval('t_c_seq'::regclass)"), ("SERIAL", "10", "0")),
        (column("c", 20, default="nextval('t_c_seq'::regclass)"), ("BIGSERIAL", "19", "0")),
        (column("c", 23, default="nextval()"), ("INT4", "10", "0")),  # GENERATED ... AS IDENTITY
        (column("c", 25), ("TEXT", "2147483647", "0")),
        (column("c", 1009), ("_TEXT", "2147483647", "0")),
        (column("c", 1043, VARCHAR_20), ("VARCHAR", "20", "0")),
        (column("c", 1043), ("VARCHAR", "2147483647", "0")),
        (column("c", 1042, 7), ("BPCHAR", "3", "0")),
        (column("c", 701), ("FLOAT8", "17", "17")),
        (column("c", 1700, ((5 << 16) | 2) + 4), ("NUMERIC", "5", "2")),
        (column("c", 1700), ("NUMERIC", "131089", "0")),
        (column("c", 90000), ("PRICE", "8", "3")),
        (column("c", 90001), ("COLOR", "2147483647", "0")),
        (column("c", 1114), ("TIMESTAMP", "29", "6")),
        (column("c", 1184, 3), ("TIMESTAMPTZ", "32", "3")),
        (column("c", 1083, 1), ("TIME", "11", "1")),
        (column("c", 90003, 3), ("VECTOR", "3", "0")),
        (column("c", 90003), ("VECTOR", None, "0")),
    ],
)  # fmt: skip
def test_type_in_the_schema_is_that_of_the_driver(made: CapturedColumn, expected: tuple[str, str | None, str]) -> None:
    rows = table([made], keys={"column.propagate.source.type": r"public\.t\.c"})
    found = {
        name.rpartition(".")[2]: value for name, value in (rows.columns[0].schema.parameters or {}).items() if "__deb" in name
    }
    assert (found["type"], found.get("length"), found["scale"], found["name"]) == (*expected, "c")


def test_types_are_selected_by_their_name() -> None:
    rows = table([column("a", 23), column("b", 1700)], keys={"datatype.propagate.source.type": r".+\.NUMERIC"})
    shown = ["__debezium.source.column.type" in (c.schema.parameters or {}) for c in rows.columns]
    assert shown == [False, True]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("column.mask.hash.SHA-257.with.salt.x", "a"),
        ("column.mask.with.x.chars", "a"),
        ("column.truncate.to.chars", "a"),
        ("column.mask.with.3.chars", "("),
    ],
)
def test_wrong_rules_are_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config(CONFIG | {key: value})
    assert raised.value.key == key


def test_unknown_type_has_no_text() -> None:
    assert not source_type({}, 5, -1, None).is_text
