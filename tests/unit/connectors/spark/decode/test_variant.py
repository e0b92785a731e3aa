"""The binary encoding of VARIANTs against the specification, and what becomes one. Spark reads them in the integration tests."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.errors import DataError
from connectors.spark.decode.exact_values import parse_text
from connectors.spark.decode.number_text import exact_double
from connectors.spark.decode.rescued_json import scalar_text
from connectors.spark.decode.toast import placeholders
from connectors.spark.decode.variant import (
    VARIANT,
    Date,
    Float,
    Timestamp,
    decode_variant,
    encode_variant,
)
from connectors.spark.decode.variant_casts import variants_of_json, variants_of_values
from connectors.spark.plan.evolution import cast_column
from connectors.spark.plan.stored_variants import for_file
from connectors.spark.tables.files.file_columns import FileColumns

D = decimal.Decimal
WORD = "__debezium_unavailable_value"
NAMES = st.text(st.characters(codec="utf-8"), max_size=8)
NUMBERS = st.one_of(
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.decimals(allow_nan=False, allow_infinity=False, places=7, min_value=-(10**20), max_value=10**20),
    st.sampled_from([D("0.00"), D("1.50"), D("1E+37"), D("1E-38"), D("-0.0"), D("9" * 38), D("0." + "9" * 38)]),
)
NODES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(st.characters(codec="utf-8"), max_size=80), st.binary(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(NAMES, inner, max_size=5)),
    max_leaves=25,
)


def decoded(node: Any) -> Any:
    return decode_variant(*encode_variant(node))


def same(given_: Any, found: Any) -> bool:
    """Equal, with numbers of the same value: a decimal without digits after its point is an integer, and -0 a double."""
    if isinstance(given_, dict):
        return given_.keys() == found.keys() and all(same(given_[name], found[name]) for name in given_)
    if isinstance(given_, list):
        return len(given_) == len(found) and all(map(same, given_, found))
    if isinstance(given_, decimal.Decimal):
        signs = given_.is_signed() == (math.copysign(1, found) < 0)
        return bool(given_ == found) and (signs or bool(given_))
    if type(given_) is int:
        return type(found) in (int, decimal.Decimal) and bool(given_ == found)
    return type(given_) is type(found) and bool(given_ == found)


@settings(max_examples=60, deadline=None)
@given(NODES)
def test_every_node_is_read_back(node: Any) -> None:
    assert same(node, decoded(node))


@pytest.mark.parametrize(
    ("text", "metadata", "value"),
    [  # From the specification's layout
        ("null", "010000", "00"),
        ("true", "010000", "04"),
        ("-1", "010000", "0cff"),
        ("128", "010000", "108000"),
        ("32768", "010000", "1400800000"),
        ("2147483648", "010000", "180000008000000000"),
        ("1.5", "010000", "20010f000000"),
        ("-12345678901.5", "010000", "2401e9e56641e3ffffff"),
        ('"ab"', "010000", "096162"),
        ("[1,2]", "010000", "03020002040c010c02"),
        ('{"b":1,"a":"x"}', "1102000102" + "6162", "020200010002040578" + "0c01"),
    ],
)
def test_bytes_are_those_of_the_specification(text: str, metadata: str, value: str) -> None:
    found = encode_variant(parse_text(text))
    assert (found.metadata.hex(), found.value.hex()) == (metadata, value)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 300, 70_000])
def test_counts_and_offsets_of_all_widths(size: int) -> None:
    assert decoded(list(range(size))) == list(range(size))
    assert decoded({f"k{i}": i for i in range(size)}) == {f"k{i}": i for i in range(size)}
    assert decoded(["x" * size, {"y" * size: "z" * size}]) == ["x" * size, {"y" * size: "z" * size}]


@pytest.mark.parametrize("text", ["1e300", "-5e-324", "0.1e-50", "1" + "0" * 300, "-0", "1.7976931348623157e308"])
def test_number_beyond_decimals_is_the_double_of_its_text(text: str) -> None:
    found = decoded(parse_text(text))
    assert isinstance(found, float)
    assert found == exact_double(D(text))
    assert math.copysign(1, found) == math.copysign(1, D(text))


@pytest.mark.parametrize(
    "text", ["9" * 39, "0." + "1" * 39, "1e400", "12345678901234567890.1234567890123456789", "123456789012345678901e30"]
)
def test_number_that_would_change_is_refused_with_its_path(text: str) -> None:
    with pytest.raises(DataError, match="cannot hold the number") as raised:
        encode_variant(parse_text(f'{{"a":[0,{{"b":{text}}}]}}'))
    assert raised.value.field == "a[1].b"


def test_zeros_at_the_end_are_kept_where_there_is_room_for_them() -> None:
    assert str(decoded(D("1.500"))) == "1.500"
    assert decoded(D("1." + "0" * 50)) == 1
    assert decoded(D("123456789012345678901234567890." + "0" * 30)) == D("123456789012345678901234567890")


def test_other_values_that_cannot_be_stored_are_refused() -> None:
    with pytest.raises(DataError, match="half a character"):
        encode_variant(json.loads('"\\ud800"'))
    with pytest.raises(DataError, match="half a character"):
        encode_variant(json.loads('{"\\udc00": 1}'))
    with pytest.raises(DataError, match="at most 16777216 bytes, and this value needs"):
        encode_variant("x" * (1 << 24))


def test_depth_is_not_limited_by_the_stack() -> None:
    deep: Any = D("1.5")
    for number in range(5_000):
        deep = [deep] if number % 2 else {"a": deep}
    metadata, value = encode_variant(deep)
    levels = 0
    while value[0] & 3 in (2, 3):  # the last element of an object or array with one element is at its end
        size, is_array = (value[0] >> 2 & 3) + 1, value[0] & 3 == 3
        value = value[1 + 1 + (0 if is_array else 1) + 2 * size :]
        levels += 1
    assert (levels, decode_variant(metadata, value)) == (5_000, D("1.5"))


def test_text_of_documents_becomes_values_and_the_null_of_json_is_one() -> None:
    found = variants_of_json(pa.array(['{"a":1}', None, "null", WORD, " 5 "]), WORD)
    assert found.type == VARIANT
    assert found.is_valid().to_pylist() == [True, False, True, True, True]
    assert [None if v is None else decode_variant(**v) for v in found.to_pylist()] == [{"a": 1}, None, None, WORD, 5]
    mask = placeholders(pa.chunked_array([found]), WORD)
    assert mask is not None
    assert mask.to_pylist() == [False, False, False, True, False]
    for bad in ("", "{", '{"a":1,"a":2}', "no document"):
        with pytest.raises(DataError):
            variants_of_json(pa.array([bad]), WORD)


def test_values_of_all_types_become_variants() -> None:
    when = dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    columns: list[tuple[pa.Array, list[Any]]] = [
        (pa.array([-128, None], pa.int8()), [-128, None]),
        (pa.array([2**63 - 1], pa.int64()), [2**63 - 1]),
        (pa.array([0.1, math.inf], pa.float64()), [0.1, math.inf]),
        (pa.array([1.5], pa.float32()), [Float(1.5)]),
        (pa.array([D("1.50")], pa.decimal128(38, 2)), [D("1.50")]),
        (pa.array([b"\0\xff"], pa.binary()), [b"\0\xff"]),
        (pa.array([-(10**6), 10**6], pa.int32()).cast(pa.date32()), [Date(-(10**6)), Date(10**6)]),
        (pa.array([when], pa.timestamp("us", "UTC")), [Timestamp(1767323045000006, True)]),
        (pa.array([5, None], pa.int64()).cast(pa.timestamp("us")), [Timestamp(5, False), None]),
        (pa.array([{"b": 1, "a": [None, "x"]}, None]), [{"b": 1, "a": [None, "x"]}, None]),
        (pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32())), [{"k": 1}, {}, None]),
        (pa.array([[["x"]], None, [[], None]]), [[["x"]], None, [[], None]]),
    ]
    for array, expected in columns:
        for part, wanted in ((array, expected), (array.slice(1), expected[1:])):
            found = variants_of_values(part)
            assert [None if v is None else decode_variant(**v) for v in found.to_pylist()] == wanted
    with pytest.raises(DataError, match="a map with keys of type int32"):
        variants_of_values(pa.array([[(1, 2)]], pa.map_(pa.int32(), pa.int32())))


def test_rescued_variants_are_json() -> None:
    nodes = {"d": D("1.50"), "x": [None, "ü"], "t": Timestamp(0, True), "n": Date(1), "f": Float(0.1)}
    (scalar,) = pa.array([dict(encode_variant(nodes)._asdict())], VARIANT)
    text = scalar_text(scalar)
    assert text == '{"d":1.50,"f":0.10000000149011612,"n":"1970-01-02","t":"1970-01-01T00:00:00+00:00","x":[null,"ü"]}'


def test_files_of_others_have_the_fields_in_another_order() -> None:
    stored = pa.struct([pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False)])
    nested = pa.struct([("v", stored), ("n", pa.int32())])
    one = {"metadata": b"\1\0\0", "value": b"\0"}
    rows = pa.table({"c": pa.array([{"v": one, "n": 1}, {"v": None, "n": 2}, None], nested)})
    wanted = pa.struct([("v", VARIANT), ("n", pa.int32())])
    found = FileColumns.by_name({"c": wanted}).in_file(rows.schema).complete(rows)
    assert (found["c"].type, found.to_pylist()) == (wanted, rows.to_pylist())
    unknown = pa.table({"c": pa.array([{**one, "other_value": 1}])})
    with pytest.raises(DataError, match="which is not supported"):
        FileColumns.by_name({"c": VARIANT}).in_file(unknown.schema).complete(unknown)
    # A record's struct of the same names is no VARIANT.
    with pytest.raises(DataError, match=r"add c to variant\.columns"):
        cast_column(pa.chunked_array([pa.array([one])]), VARIANT, "c")


def test_fields_of_a_variant_have_no_nulls_in_a_file() -> None:
    rows = pa.table({"v": pa.nulls(2, VARIANT), "l": pa.array([[None], None], pa.list_(VARIANT))})
    found = for_file(rows)
    assert found.schema == rows.schema
    assert found.to_pylist() == rows.to_pylist()
    assert found["v"].chunk(0).field("metadata").null_count == 0
