"""Random schemas and values: what the table holds is what the source had, to the bit, in every path (promise 8)."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from connect.converters.json.converter import JsonConverter
from connect.data import logical
from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connect.java.number_text import double_text
from connect.record import SinkRecord
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.table_fields import TableFields
from connectors.spark.decode.topic_decoder import TopicDecoder

Expected = Callable[[Any], Any]
Typed = tuple[Schema, st.SearchStrategy[Any], Expected]
EPOCH = dt.datetime(1970, 1, 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["NaN", "Infinity", "null", '"', "\\u00e9"]
)
NAMES = st.lists(
    st.sampled_from(["id", "x", "price", "ts_us", "f", 'a"b', "größe", "a b", "e-3", "NaN", "before", "_"]),
    min_size=1, max_size=5, unique=True,
)  # fmt: skip
DOUBLES = st.floats() | st.sampled_from([0.1, 1e22, 5e-324, -0.0, 2.0**-44, 1.7976931348623157e308, 123456789.12345679])
FLOATS = st.floats(width=32) | st.sampled_from([-0.0, 1.401298464324817e-45, 3.4028234663852886e38, 2.0**83])


def same(value: Any) -> Any:
    return value


def micros(value: int) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=value)


def schema(type_: Type, name: str | None = None, **more: Any) -> Schema:
    return Schema(type_, optional=True, name=name, **more)


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def of_days(days: int) -> dt.date:
    return dt.date(1970, 1, 1) + dt.timedelta(days)


def decimals(scale: int) -> st.SearchStrategy[decimal.Decimal]:
    return st.integers(-(10**38) + 1, 10**38 - 1).map(lambda v: decimal.Decimal(v).scaleb(-scale, decimal.Context(prec=40)))


def time_text(value: int, digits: int) -> str:
    seconds, fraction = divmod(abs(value), 10**digits)
    sign = "-" if value < 0 else ""
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:0{digits}d}"


DAY = 86_400_000_000
MYSQL_TIME = 3_020_399_000_000  # 838:59:59
TIMES = st.integers(0, DAY - 1) | st.integers(-MYSQL_TIME, MYSQL_TIME) | st.sampled_from([-1, DAY, MYSQL_TIME, -MYSQL_TIME])
SECONDS = 10**15
SCALARS: list[Typed] = [
    *[(schema(t), integers(b), same) for t, b in ((Type.INT8, 8), (Type.INT16, 16), (Type.INT32, 32), (Type.INT64, 64))],
    (schema(Type.FLOAT64), DOUBLES, same),
    (schema(Type.FLOAT32), FLOATS, same),
    (schema(Type.BOOLEAN), st.booleans(), same),
    (schema(Type.STRING), TEXT, same),
    (schema(Type.BYTES), st.binary(max_size=8), same),
    (schema(Type.INT32, "io.debezium.time.Date"), st.integers(-700_000, 2_900_000), of_days),
    (schema(Type.INT64, "io.debezium.time.MicroTimestamp"), st.integers(-SECONDS, SECONDS), micros),
    (schema(Type.INT64, "io.debezium.time.Timestamp"), st.integers(-SECONDS // 1000, SECONDS // 1000),
     lambda v: micros(v * 1000)),
    (schema(Type.INT64, "io.debezium.time.NanoTimestamp"), integers(64), same),
    (schema(Type.INT32, "io.debezium.time.Time"), integers(32), lambda v: time_text(v * 1000, 6)),
    (schema(Type.INT64, "io.debezium.time.MicroTime"), TIMES, lambda v: time_text(v, 6)),
    (schema(Type.INT64, "io.debezium.time.NanoTime"), integers(64).filter((-(1 << 63)).__ne__), lambda v: time_text(v, 9)),
    (schema(Type.INT32, logical.DATE), st.dates(dt.date(100, 1, 1), dt.date(9000, 1, 1)), same),
    *[(schema(Type.BYTES, logical.DECIMAL, parameters={"scale": str(scale)}), decimals(scale), same) for scale in (0, 2, 37)],
]  # fmt: skip


def optional(item: Expected) -> Expected:
    return lambda value: None if value is None else item(value)


def lists(inner: Typed) -> Typed:
    element, values, expected = inner
    made = Schema(Type.ARRAY, optional=True, value_schema=element)
    return made, st.lists(st.none() | values, max_size=3), lambda v: [optional(expected)(e) for e in v]


def maps(inner: Typed) -> Typed:
    element, values, expected = inner
    made = Schema(Type.MAP, optional=True, key_schema=Schema.STRING, value_schema=element)
    return (
        made,
        st.dictionaries(TEXT, st.none() | values, max_size=3),
        lambda v: [(k, optional(expected)(e)) for k, e in v.items()],
    )


def structs(names: list[str], members: list[Typed]) -> Typed:
    builder = SchemaBuilder.struct().optional()
    for name, (member, _, _) in zip(names, members, strict=True):
        builder.field(name, member)
    made = builder.build()
    values = st.tuples(*(st.none() | strategy for _, strategy, _ in members)).map(lambda row: Struct(made, list(row)))
    conversions = [optional(expected) for _, _, expected in members]
    return made, values, lambda v: {n: c(m) for n, c, m in zip(names, conversions, v.values, strict=True)}


@st.composite
def rows(draw: st.DrawFn, inner: st.SearchStrategy[Typed]) -> Typed:
    names = draw(NAMES)
    return structs(names, [draw(inner) for _ in names])


TYPED = st.recursive(st.sampled_from(SCALARS), lambda inner: inner.map(lists) | inner.map(maps) | rows(inner), max_leaves=5)


@st.composite
def records(draw: st.DrawFn) -> tuple[Schema, list[Struct], list[Any]]:
    made, values, expected = draw(rows(TYPED))
    chosen = draw(st.lists(values, min_size=1, max_size=4))
    return made, chosen, [expected(v) for v in chosen]


def bits(value: Any) -> Any:
    """The value in a form in which equal means equal to the bit."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack(">d", value)
    if isinstance(value, dict):
        return {k: bits(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [bits(v) for v in value]
    if isinstance(value, decimal.Decimal):
        return value.as_tuple()
    return (type(value), value)


def found(batches: list[ChangeBatch]) -> list[Any]:
    table = pa.concat_tables([b.image for b in batches], promote_options="default")
    order = [at for b in batches for at in b.meta["sequence"].to_pylist()]
    unordered = table.to_pylist()
    return [bits(row) for _, row in sorted(zip(order, unordered, strict=True), key=lambda pair: pair[0])]


def decoder(converter: JsonConverter, *, schemas: bool) -> TopicDecoder:
    return TopicDecoder(
        "t", converter, converter, key_schemas=schemas, value_schemas=schemas, fill_defaults=False, key_name=None,
        needs_names=False, needs_keys=False,
    )  # fmt: skip


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(records())
def test_rows_with_a_schema_equal_the_source(case: tuple[Schema, list[Struct], list[Any]]) -> None:
    made, values, expected = case
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true"}, is_key=False)
    lines = converter.encode_batch("t", made, values)
    count = len(values)
    raw = RawBuffer("t", [0] * count, list(range(count)), [None] * count, lines)
    wanted = [bits(e) for e in expected]
    assert found(decoder(converter, schemas=True).decode_raw(raw, 0)) == wanted
    assert found(decoder(converter, schemas=True).decode_exactly(raw, 0)) == wanted
    connect = [SinkRecord("t", 0, None, None, made, value, at) for at, value in enumerate(values)]
    assert found(decoder(converter, schemas=True).decode_records(connect)) == wanted


NUMBERS = (
    st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.integers(-(1 << 70), 1 << 70).map(str)
    | st.decimals(allow_nan=False, allow_infinity=False).map(str)
    | st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,3})?", fullmatch=True)
)


def keeps(value: float, text: str) -> bool:
    """Whether the number is the text again when it is written with its digits, or the shortest ones, or by Java 17."""
    number = decimal.Decimal(text)
    if not math.isfinite(value):
        return False
    digits = len(number.as_tuple().digits)
    texts = repr(value), double_text(value), format(value, f".{digits - 1}e")
    return number in map(decimal.Decimal, texts)


@settings(max_examples=150, deadline=None)
@example(["0.020000E310"], False, '{"f":%s}')
@example(["-1000e306"], True, '{"f":[%s]}')
@given(st.lists(NUMBERS, min_size=1, max_size=3), st.booleans(), st.sampled_from(['{"f":%s}', '{"a":7,"f": %s }', '{"f":[%s]}']))
def test_a_number_in_json_is_kept_or_refused(texts: list[str], schemas: bool, form: str) -> None:
    listed = "[" in form
    type_: dict[str, Any] = {"type": "array", "items": {"type": "double"}} if listed else {"type": "double"}
    text = json.dumps({"type": "struct", "fields": [{"field": "f", **type_}]}, separators=(",", ":"))
    payloads = [form % t for t in ["1.5", *texts]]
    lines: list[bytes | None] = [(f'{{"schema":{text},"payload":{p}}}' if schemas else p).encode() for p in payloads]
    converter = JsonConverter()
    converter.configure({"schemas.enable": str(schemas).lower()}, is_key=False)
    raw = RawBuffer("t", [0] * len(lines), list(range(len(lines))), [None] * len(lines), lines)
    exact = all(keeps(float(t), t) for t in texts)
    reader = decoder(converter, schemas=schemas)
    if not exact:
        with pytest.raises(DataError, match="field f"):
            reader.decode_raw(raw, 0)
        return
    (batch,) = reader.decode_raw(raw, 0)
    values = batch.image["f"].to_pylist()[1:]
    assert [bits(v[0] if listed else v) for v in values] == [bits(float(t)) for t in texts]


@settings(max_examples=100, deadline=None)
@example("3348246644704018273141.9969517", 22, '{"d":"%s"}')
@example("3348246644704018273141.9969517", 22, '{"d":%s}')
@given(
    st.from_regex(r"-?(0|[1-9][0-9]{0,37})(\.[0-9]{1,20})?([eE][-+]?[0-9])?", fullmatch=True),
    st.integers(0, 38),
    st.sampled_from(['{"d":%s}', '{"d":"%s"}', '{"d":[%s]}']),
)
def test_a_number_for_a_decimal_column_is_kept_or_refused(text: str, scale: int, form: str) -> None:
    number, wide = decimal.Decimal(text), decimal.Context(prec=100)
    unscaled = number.scaleb(scale, wide)
    fits = unscaled == unscaled.to_integral_value() and abs(unscaled) < 10**38
    type_ = pa.decimal128(38, scale)
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, is_key=False)
    reader = decoder(converter, schemas=False)
    reader.inferred_value_schema.know_table(TableFields({"d": pa.list_(type_) if "[" in form else type_}))
    lines: list[bytes | None] = [(form % text).encode()]
    raw = RawBuffer("t", [0], [0], [None], lines)
    if not fits:
        with pytest.raises(DataError):
            reader.decode_raw(raw, 0)
        return
    (batch,) = reader.decode_raw(raw, 0)
    (value,) = batch.image["d"].to_pylist()
    assert (value[0] if "[" in form else value) == number
