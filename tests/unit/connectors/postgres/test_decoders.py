"""Text forms of values: COPY lines, arrays, hstore, numbers, times."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.data.logical import bytes_to_decimal
from connect.data.struct import Struct
from connect.errors import DataError
from connectors.cdc.schema.filters import Filters
from connectors.databases.calendar import epoch_day_of_date
from connectors.databases.postgresql.dates import parse_time_micros
from connectors.databases.postgresql.text_format import unescape_copy
from connectors.postgres.config import TypeSettings, parse_config
from connectors.postgres.schema import source_block as block
from connectors.postgres.schema.catalog import CapturedColumn, CapturedTable
from connectors.postgres.schema.row_decoder import TableRows, snapshot_decoder
from connectors.postgres.types import column_type, numbers, temporal, text
from connectors.postgres.types.arrays import parse_array
from connectors.postgres.types.catalog_type import CatalogType
from connectors.postgres.types.defaults import may_have_default

SETTINGS = parse_config({"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d"})
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)
nasty = texts | st.text("\\N\tnrb\n{}\",'\r \b", max_size=20)


def copy_field(value: str | None) -> str:
    """A field as COPY TO writes it."""
    if value is None:
        return "\\N"
    for c, escaped in (("\\", "\\\\"), ("\b", "\\b"), ("\f", "\\f"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\v", "\\v")):
        value = value.replace(c, escaped)
    return value


@given(nasty)
def test_unescape_undoes_copy(value: str) -> None:
    assert unescape_copy(copy_field(value)) == value


@given(st.lists(st.lists(st.none() | nasty, min_size=3, max_size=3), max_size=8))
def test_copy_lines_become_rows(rows: list[list[str | None]]) -> None:
    types = {25: CatalogType(25, "pg_catalog", "text", "b", 0, 0, -1)}
    table = CapturedTable(
        1, "public", "t", tuple(CapturedColumn(f"c{i}", 25, -1, False, None) for i in range(3)), (), "d", "r", -1
    )
    decode = snapshot_decoder(TableRows(table, types, SETTINGS, Filters(SETTINGS.capture)))
    lines = ["\t".join(copy_field(v) for v in row) for row in rows]
    records = decode(lines, Struct(block.SOURCE, []), {"server": "p"}, {"lsn": 1}, 1, 2, 3)
    assert [r.value["after"].values for r in records] == rows
    assert {r.key for r in records} <= {None}


def array_text(values: list[str | None]) -> str:
    """An array as the server prints it, with every element quoted."""
    parts = ["NULL" if v is None else '"' + v.replace("\\", "\\\\").replace('"', '\\"') + '"' for v in values]
    return "{" + ",".join(parts) + "}"


@given(st.lists(st.none() | nasty, max_size=8))
def test_arrays_round_trip(values: list[str | None]) -> None:
    assert parse_array(array_text(values)) == values


@given(st.lists(st.none() | st.text("abcxyz0123456789.-", min_size=1), max_size=8))
def test_unquoted_arrays_round_trip(values: list[str | None]) -> None:
    assert parse_array("{" + ",".join("NULL" if v is None else v for v in values) + "}") == values


@pytest.mark.parametrize("value", ["{{1,2},{3,4}}", '{{"a"},{"b"}}', "{", "x"])
def test_nested_arrays_are_rejected(value: str) -> None:
    with pytest.raises(DataError):
        parse_array(value)


@given(st.dictionaries(nasty, st.none() | nasty, max_size=6))
def test_hstore_round_trips(values: dict[str, str | None]) -> None:
    def quoted(word: str) -> str:
        return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'

    printed = ", ".join(f"{quoted(k)}=>{'NULL' if v is None else quoted(v)}" for k, v in values.items())
    assert text.parse_hstore(printed) == values
    assert json.loads(text.hstore(TypeSettings()).decode(printed)) == values


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**20), max_value=10**20))
def test_numeric_with_a_scale_is_exact(value: Decimal) -> None:
    mapped = numbers.numeric(((30 << 16) | 4) + 4, TypeSettings())
    assert mapped.decode(format(value, "f")) == value
    assert mapped.decode(format(value, "f")).as_tuple().exponent == -4


def has_no_positive_exponent(value: Decimal) -> bool:
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent <= 0


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30).filter(has_no_positive_exponent))
def test_numeric_of_any_scale_is_exact(value: Decimal) -> None:
    struct = numbers.numeric(-1, TypeSettings()).decode(format(value, "f"))
    assert bytes_to_decimal(struct["value"], struct["scale"]) == value


def test_numeric_with_a_negative_scale() -> None:
    mapped = numbers.numeric(((6 << 16) | (-2 & 0x7FF)) + 4, TypeSettings())
    assert mapped.schema.parameters == {"scale": "-2", "connect.decimal.precision": "6"}
    assert mapped.decode("123400").as_tuple() == Decimal("1234E+2").as_tuple()


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_do_not_fit_a_decimal_are_rejected(value: str) -> None:
    for typmod in (-1, ((6 << 16) | 2) + 4):
        with pytest.raises(DataError, match=r"decimal\.handling\.mode"):
            numbers.numeric(typmod, TypeSettings()).decode(value)


@given(st.dates())
def test_dates_count_from_1970(value: dt.date) -> None:
    expected = (value - dt.date(1970, 1, 1)).days
    assert temporal.days(value.isoformat()) == expected
    assert epoch_day_of_date(value.year, value.month, value.day) == expected


def printed(value: dt.datetime) -> str:
    """A timestamp as the server prints it: no fraction, or one without trailing zeros."""
    base = value.strftime("%H:%M:%S")
    fraction = f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
    return f"{value.year:04d}-{value.month:02d}-{value.day:02d} {base}{fraction}"


@given(st.datetimes())
def test_timestamps_are_micros_and_zoned_ones_iso_text(value: dt.datetime) -> None:
    micros = (value - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    assert temporal.timestamp_micros(printed(value)) == micros
    assert temporal.zoned_timestamp(printed(value) + "+00") == value.isoformat("T", "microseconds") + "Z"
    assert temporal.zoned_timestamp(printed(value.replace(microsecond=0)) + "+00", 0) == value.isoformat("T", "seconds") + "Z"
    assert parse_time_micros(printed(value)[11:]) == micros % 86_400_000_000


@pytest.mark.parametrize(
    ("value", "micros", "shown"),
    [
        ("PT0S", 0, "P0Y0M0DT0H0M0S"),
        ("P1Y2M3DT4H5M6.78S", 37_091_106_780_000, "P1Y2M3DT4H5M6.78S"),
        ("P-1Y", -31_557_600_000_000, "P-1Y0M0DT0H0M0S"),
        ("P-1DT-0.5S", -86_400_500_000, "P0Y0M-1DT0H0M-0.5S"),
    ],
)
def test_intervals_are_converted(value: str, micros: int, shown: str) -> None:
    assert temporal.interval_micros(value) == micros
    assert temporal.interval_text(value) == shown


def test_arrays_of_xml_are_arrays_of_text() -> None:
    types = {1: CatalogType(1, "pg_catalog", "xml", "b", 0, 0, -1), 2: CatalogType(2, "pg_catalog", "_xml", "b", 1, 0, -1)}
    mapped = column_type(types, 2, -1, TypeSettings())
    assert mapped is not None
    assert mapped.schema.value_schema is not None
    assert mapped.schema.value_schema.name == "io.debezium.data.Xml"
    assert mapped.decode('{"<a b=\\"c\\"/>",NULL}') == ['<a b="c"/>', None]


def test_infinite_intervals_are_the_extremes() -> None:
    assert [temporal.interval_micros(text) for text in ("infinity", "-infinity")] == [2**63 - 1, -(2**63)]
    assert temporal.interval_text("-infinity") == "-infinity"


MONEY = {"$1,234.50": "1234.50", "-$0.01": "-0.01", "$0.00": "0.00", "-$92,233,720,368,547,758.08": "-92233720368547758.08"}


@pytest.mark.parametrize(("value", "expected"), MONEY.items())
def test_money_is_exact(value: str, expected: str) -> None:
    assert numbers.money(TypeSettings()).decode(value) == Decimal(expected)


def type_of(name: str, schema: str = "pg_catalog", **settings: Any) -> Any:
    return column_type({1: CatalogType(1, schema, name, "b", 0, 0, -1)}, 1, -1, TypeSettings(**settings))


def test_arrays_of_hstore_as_maps() -> None:
    types = {1: CatalogType(1, "public", "hstore", "b", 0, 0, -1), 2: CatalogType(2, "public", "_hstore", "b", 1, 0, -1)}
    mapped = column_type(types, 2, -1, TypeSettings(hstore_mode="map"))
    assert mapped is not None
    assert mapped.schema.value_schema is not None
    assert mapped.schema.value_schema.optional
    assert mapped.decode(r'{"\"a\"=>\"1\", \"b\"=>NULL",NULL,""}') == [{"a": "1", "b": None}, None, {}]


@pytest.mark.parametrize(
    ("schema", "name", "kind", "expected"),
    [
        ("pg_catalog", "int4", "b", True),
        ("pg_catalog", "inet", "b", False),
        ("public", "citext", "b", False),
        ("public", "price", "d", False),
        ("public", "mood", "e", True),
        ("pg_catalog", "int4range", "r", False),
    ],
)
def test_only_some_types_have_defaults(schema: str, name: str, kind: str, expected: bool) -> None:
    assert may_have_default(CatalogType(1, schema, name, kind, 0, 0, -1)) == expected


def test_extension_types_are_known_in_any_schema() -> None:
    assert type_of("citext", "extensions").schema.type.value == "string"
    assert type_of("ltree", "public").schema.name == "io.debezium.data.Ltree"
    assert type_of("hstore", "public", hstore_mode="map").decode('"a"=>NULL') == {"a": None}
    assert type_of("int4", "public") is None
    assert type_of("pg_lsn") is None
    assert type_of("pg_lsn", include_unknown=True, binary_mode="hex").decode("0/10") == b"0/10".hex()
