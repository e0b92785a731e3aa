"""JsonConverter: batches and single values agree, nothing is written or read wrongly in silence."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import json
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect import Schema, Struct, Type
from connect.converters.json.converter import JsonConverter
from connect.data.logical import END_OF_DAY, FarInstant, date_schema, decimal_schema, time_schema, timestamp_schema
from connect.errors import ConfigError, DataError
from connect.java.sized_numbers import round_to_float32
from connect.strict import STRICT


def converter(**config: Any) -> JsonConverter:
    made = JsonConverter()
    made.configure({key.replace("_", "."): str(value) for key, value in config.items()}, False)
    return made


PLAIN = {"schemas_enable": "false"}

Moment = TypeVar("Moment", dt.time, dt.datetime)


def whole_millis(moment: Moment) -> Moment:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


texts = st.text(st.characters(codec="utf-8"), max_size=12)
LEAVES: list[tuple[Schema, st.SearchStrategy[Any]]] = [
    (Schema.INT8, st.integers(-128, 127)),
    (Schema.INT16, st.integers(-(2**15), 2**15 - 1)),
    (Schema.INT32, st.integers(-(2**31), 2**31 - 1)),
    (Schema.INT64, st.integers(-(2**63), 2**63 - 1)),
    (Schema.FLOAT32, st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda f: f + 0.0)),
    (Schema.FLOAT64, st.floats(allow_nan=False, allow_infinity=False).map(lambda f: f + 0.0)),
    (Schema.BOOLEAN, st.booleans()),
    (Schema.STRING, texts),
    (Schema.BYTES, st.binary(max_size=9)),
    (decimal_schema(3), st.integers(-(10**30), 10**30).map(lambda i: decimal.Decimal(f"{i}E-3"))),
    (date_schema(), st.dates()),
    (
        time_schema(),
        st.one_of(st.just(END_OF_DAY), st.times().map(whole_millis)),
    ),
    (
        timestamp_schema(),
        st.datetimes(timezones=st.just(dt.UTC)).map(whole_millis),
    ),
]


def structs(schema: Schema, rows: st.SearchStrategy[tuple[Any, ...]]) -> st.SearchStrategy[Struct]:
    return rows.map(lambda row: Struct(schema, list(row)))


@st.composite
def schemas_and_values(draw: st.DrawFn, depth: int = 2) -> tuple[Schema, st.SearchStrategy[Any]]:
    kinds = ["leaf"] * 3 + (["struct", "struct", "array", "map", "pairs"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "leaf":
        schema, values = draw(st.sampled_from(LEAVES))
    elif kind == "struct":
        names = draw(st.lists(texts.filter(bool), max_size=5, unique=True))
        members = [draw(schemas_and_values(depth - 1)) for _ in names]
        schema = Schema(Type.STRUCT, name="s", fields=[(n, m[0]) for n, m in zip(names, members, strict=True)])
        values = structs(schema, st.tuples(*[m[1] for m in members]))
    elif kind == "array":
        element, elements = draw(schemas_and_values(depth - 1))
        schema, values = Schema(Type.ARRAY, value_schema=element), st.lists(elements, max_size=3)
    else:
        element, elements = draw(schemas_and_values(depth - 1))
        key, keys = (Schema.STRING, texts) if kind == "map" else (Schema.INT32, st.integers(0, 99))
        schema = Schema(Type.MAP, key_schema=key, value_schema=element)
        values = st.dictionaries(keys, elements, max_size=3)
    if draw(st.booleans()):
        optional = schema.replace(optional=True)
        if schema.type is Type.STRUCT:
            values = values.map(lambda s: s if s is None else Struct(optional, s.values))
        return optional, st.one_of(st.none(), values)
    return schema, values


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_written_values_read_back_with_their_schema(data: st.DataObject) -> None:
    schema, values = data.draw(schemas_and_values())
    given_values = data.draw(st.lists(values, min_size=1, max_size=6))
    made = converter()
    written = made.encode_batch("t", schema, given_values)
    for value, read in zip(given_values, made.decode_batch("t", written), strict=True):
        assert read.schema == schema
        assert read.value == value


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_batch_gives_the_same_bytes_as_single_values(data: st.DataObject) -> None:
    schema, values = data.draw(schemas_and_values())
    given_values = data.draw(st.lists(values, min_size=4, max_size=8))
    numeric = data.draw(st.sampled_from(["BASE64", "NUMERIC"]))
    made = converter(schemas_enable="false", decimal_format=numeric)
    single = [made.from_connect_data("t", schema, v) for v in given_values]
    # Large batches are written by columns, small ones value by value.
    for times in (1, 13):
        assert made.encode_batch("t", schema, given_values * times) == single * times


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), LEAVES[3][1], st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(json_values.filter(lambda v: v is not None), min_size=1, max_size=5))
def test_schemaless_values_round_trip(values: list[Any]) -> None:
    made = converter(**PLAIN)
    written = made.encode_batch("t", None, values)
    assert [json.loads(w) for w in written if w is not None] == values
    assert [read.value for read in made.decode_batch("t", written)] == values


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.booleans())
def test_garbage_is_read_or_rejected_without_crash(data: bytes, schemas: bool) -> None:
    made = converter(schemas_enable=str(schemas).lower())
    with contextlib.suppress(DataError):
        made.decode_batch("t", [data, data])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_json_reads_the_same_alone_and_in_a_batch(data: st.DataObject) -> None:
    schema, _ = data.draw(schemas_and_values())
    node = data.draw(json_values)
    payload = json.dumps(node, ensure_ascii=data.draw(st.booleans())).encode()
    made = converter()
    head = made._prefix(schema)  # the envelope up to the payload
    record = head + payload + b"}"
    assert outcome(lambda: made.decode_batch("t", [record] * 2)) == outcome(lambda: [made._decode_slowly(record)] * 2)


def outcome(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except DataError as e:
        return e.message


INNER = Schema(Type.STRUCT, fields=[("small", Schema.INT8), ("many", Schema(Type.ARRAY, value_schema=Schema.INT64))])
ROW = Schema(Type.STRUCT, fields=[("id", Schema.INT32), ("name", Schema.OPTIONAL_STRING), ("inner", INNER)])


def row(**changes: Any) -> Struct:
    inner = Struct(INNER, [changes.pop("small", 1), changes.pop("many", [1])])
    return Struct(ROW, [changes.get("id", 1), changes.get("name"), inner])


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"id": "1"}, "id"),
        ({"id": True}, "id"),
        ({"id": 1.0}, "id"),
        ({"id": 2**31}, "id"),
        ({"id": None}, "id"),
        ({"name": 5}, "name"),
        ({"name": b"x"}, "name"),
        ({"small": 128}, "inner.small"),
        ({"many": [1, "2"]}, "inner.many[1]"),
        ({"many": [2**63]}, "inner.many[0]"),
        ({"many": (1,)}, "inner.many"),
    ],
)
def test_invalid_value_is_rejected_and_its_field_named(changes: dict[str, Any], field: str) -> None:
    values = [row() for _ in range(9)] + [row(**changes)]
    with pytest.raises(DataError) as caught:
        converter().encode_batch("t", ROW, values)
    assert caught.value.field == field


def test_instants_outside_pythons_years_are_written_as_numbers() -> None:
    struct = Schema(Type.STRUCT, fields=[("d", date_schema()), ("t", timestamp_schema())])
    row = Struct(struct, [FarInstant(-719_164 * 86_400_000), FarInstant(9_223_372_036_825_200_000)])
    text = converter(**PLAIN).from_connect_data("t", struct, row)
    assert text == b'{"d":-719164,"t":9223372036825200000}'
    assert converter(**PLAIN).encode_batch("t", struct, [row] * 20) == [text] * 20


def test_dates_beyond_32_bits_of_days_wrap() -> None:
    struct = Schema(Type.STRUCT, fields=[("d", date_schema())])
    row = Struct(struct, [FarInstant(-36_519_056_921 * 86_400_000)])
    text = converter(**PLAIN).from_connect_data("t", struct, row)
    assert text == b'{"d":2135648743}'
    assert converter(**PLAIN).encode_batch("t", struct, [row] * 20) == [text] * 20
    strict = converter(**PLAIN, **{STRICT: "true"})
    for write in (lambda: strict.from_connect_data("t", struct, row), lambda: strict.encode_batch("t", struct, [row] * 20)):
        with pytest.raises(DataError, match="-36519056921 days") as caught:
            write()
        assert caught.value.field == "d"


def test_instants_outside_pythons_years_round_trip_beside_others() -> None:
    fields = [("d", date_schema(optional=True)), ("t", timestamp_schema(default=FarInstant(1 << 60)))]
    struct = Schema(Type.STRUCT, fields=fields)
    near = Struct(struct, [dt.date(1, 1, 1), dt.datetime(9999, 12, 31, tzinfo=dt.UTC)])
    far = Struct(struct, [FarInstant(-719_164 * 86_400_000), FarInstant(-62_135_596_800_001)])
    rows = [near, far, Struct(struct, [None, far.values[1]]), near, Struct(struct, [FarInstant(86_400_000 * (2**31 - 1)), None])]
    one = converter()
    datas = one.encode_batch("t", struct, rows)
    assert datas == [one.from_connect_data("t", struct, row) for row in rows]
    expected = [row.values for row in rows]
    expected[-1][1] = FarInstant(1 << 60)
    for config in ({}, {STRICT: "true"}):
        reading = converter(**config)
        assert [found.value.values for found in reading.decode_batch("t", datas)] == expected
        assert [reading.to_connect_data("t", data).value.values for data in datas] == expected


def test_struct_needs_an_equal_schema() -> None:
    other = Schema(Type.STRUCT, fields=[("id", Schema.INT64)])
    with pytest.raises(DataError, match="Mismatching schema"):
        converter().encode_batch("t", ROW, [Struct(other, [1])] * 20)
    equal = ROW.replace()
    written = converter().encode_batch("t", ROW, [Struct(equal, [1, None, Struct(INNER, [1, [1]])])] * 20)
    assert written == converter().encode_batch("t", ROW, [row()] * 20)


def test_rows_of_wrong_length_are_rejected() -> None:
    schema = Schema(Type.STRUCT, fields=[("a", Schema.INT32), ("b", Schema.INT32)])
    for cells in ([1], [1, 2, 3]):
        with pytest.raises(DataError, match="2 fields"):
            converter().encode_batch("t", schema, [Struct(schema, cells)] * 20)


@pytest.mark.parametrize("value", [object(), {1, 2}, 2**63, -(2**63) - 1, dt.datetime.now(dt.UTC), decimal.Decimal(1), 1j])
def test_schemaless_values_of_unknown_type_are_rejected(value: Any) -> None:
    with pytest.raises(DataError):
        converter(**PLAIN).encode_batch("t", None, [{"a": value}] * 3)


def test_numbers_and_escapes_are_written_like_jackson() -> None:
    values = [1e10, 0.0001, float("nan"), float("-inf"), -0.0, 1.5]
    written = converter(**PLAIN).encode_batch("t", Schema.FLOAT64, values)
    assert written == [b"1.0E10", b"1.0E-4", b'"NaN"', b'"-Infinity"', b"-0.0", b"1.5"]
    texts = ["\x1f", "\U0001f600", "\\u001f", "é\u2028", "\ud83d", 'a"\n']
    escaped = [b'"\\u001F"', b'"\\uD83D\\uDE00"', b'"\\\\u001f"', '"é\u2028"'.encode(), b'"\\uD83D"', b'"a\\"\\n"']
    assert converter(**PLAIN).encode_batch("t", Schema.STRING, texts) == escaped
    assert converter(**PLAIN).encode_batch("t", None, texts[:4]) == escaped[:4]
    floats = [0.1, 3.4028235e38, 16777216.0, 1e-45, 123.456]
    expected = [b"0.1", b"3.4028235E38", b"1.6777216E7", b"1.4E-45", b"123.456"]
    assert converter(**PLAIN).encode_batch("t", Schema.FLOAT32, floats) == expected


def test_a_shared_struct_is_written_for_every_row() -> None:
    inner_schema = Schema(Type.STRUCT, fields=[("a", Schema.INT32)])
    outer = Schema(Type.STRUCT, fields=[("n", Schema.INT32), ("in", inner_schema)])
    shared = Struct(inner_schema, [7])
    written = converter(**PLAIN).encode_batch("t", outer, [Struct(outer, [i, shared]) for i in range(600)])
    assert written[599] == b'{"n":599,"in":{"a":7}}'


def test_nulls_become_the_default_unless_disabled() -> None:
    schema = Schema(
        Type.STRUCT, fields=[("a", Schema(Type.INT32, default=5)), ("b", Schema(Type.STRING, optional=True, default="x"))]
    )
    rows = [Struct(schema, [None, None])] * 20
    assert converter(**PLAIN).encode_batch("t", schema, rows)[0] == b'{"a":5,"b":"x"}'
    with pytest.raises(DataError):
        converter(**PLAIN, replace_null_with_default="false").encode_batch("t", schema, rows)


def test_tombstones_pass() -> None:
    for made in (converter(), converter(**PLAIN)):
        assert made.encode_batch("t", None, [None, None]) == [None, None]
        assert made.decode_batch("t", [None]) == [(None, None)]


def test_bytes_after_a_known_schema_must_be_one_complete_payload() -> None:
    made = converter()
    good = made.encode_batch("t", Schema.OPTIONAL_INT32, [1, 2])
    assert good[0] is not None
    assert [r.value for r in made.decode_batch("t", good)] == [1, 2]
    with pytest.raises(DataError, match="additional fields"):
        made.decode_batch("t", [good[0][:-1] + b',"x":2}'])
    assert made.decode_batch("t", [good[0] + b" trailing"])[0].value == 1
    assert made.decode_batch("t", [good[0][:-1] + b',"payload":9}'])[0].value == 9
    with pytest.raises(DataError):
        made.decode_batch("t", [good[0][:-1]])


def test_equal_schemas_on_the_wire_are_one_object_and_caches_stay_small() -> None:
    made = converter(schemas_cache_size="3")
    seen = set()
    for number in range(50):
        schema = Schema(Type.STRING, name=f"n{number}")
        record = made.encode_batch("t", schema, ["x"])[0]
        first, second = made.decode_batch("t", [record, record])
        assert first.schema is second.schema
        assert first.schema == schema
        seen.add(first.schema)
    assert len(seen) == 50
    assert len(made._encoders) <= 3
    assert len(made._parsed) <= 3


def test_numbers_beyond_64_bits_and_deep_nesting_are_harmless() -> None:
    made = converter(**PLAIN)
    assert made.decode_batch("t", [b"18446744073709551616", b"9223372036854775808"]) == [(None, 0), (None, -(2**63))]
    assert made.decode_batch("t", [b"1e400"])[0].value == float("inf")
    for data in (b"[" * 100_000, b'{"a":' * 100_000, b"1" * 5_000, b"1e99999999999999999999"):
        with pytest.raises(DataError):
            made.decode_batch("t", [data])
    exact = converter(schema_content='{"type":"int32"}')
    assert exact.decode_batch("t", [b"1e1000000000"])[0].value == 0


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe"])
def test_byte_order_mark_alone_is_an_error(mark: bytes) -> None:
    with pytest.raises(DataError, match="serialization error"):
        converter(**PLAIN).to_connect_data("t", mark)
    assert converter(**PLAIN).to_connect_data("t", b"\xef\xbb\xbf1").value == 1


def test_too_deep_value_is_rejected_without_crash() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(DataError, match="nested"):
        converter(**PLAIN).encode_batch("t", None, [value])


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float32_is_rounded_once(number: float) -> None:
    read = converter(schema_content='{"type":"float"}').decode_batch("t", [repr(number).encode()])[0].value
    assert read == round_to_float32(number)


def test_invalid_schema_content_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"schema\.content"):
        converter(schema_content='{"type":"int33"}')
