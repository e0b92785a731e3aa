"""Custom converters and transformations may give any Python value: one of another type than its schema has is errant."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pytest

from connect.converters.json.converter import JsonConverter
from connect.data import logical
from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.record import SinkRecord
from connectors.spark.decode.tolerant_decoding import decode_renamed
from connectors.spark.decode.topic_decoder import TopicDecoder

BYTES = Schema(Type.BYTES, optional=True)
TEXT = Schema(Type.STRING, optional=True)
LIST = Schema(Type.ARRAY, optional=True, value_schema=TEXT)
MAP = Schema(Type.MAP, optional=True, key_schema=TEXT, value_schema=TEXT)
ROW = SchemaBuilder.struct().optional().field("x", TEXT).build()
DECIMAL = logical.decimal_schema(2, optional=True)
VARIABLE = (
    SchemaBuilder.struct()
    .optional()
    .name("io.debezium.data.VariableScaleDecimal")
    .field("scale", Schema(Type.INT32))
    .field("value", Schema(Type.BYTES))
    .build()
)
DATE, TIME, TIMESTAMP = (
    f(optional=True) for f in (logical.date_schema, logical.time_schema, logical.timestamp_schema)
)  # fmt: skip
EVENING = dt.datetime(2024, 1, 1, 23, 59, tzinfo=dt.UTC)
ZONE = dt.timezone(dt.timedelta(hours=5))


def decode(values: list[tuple[Schema, Any]]) -> tuple[list[Any], list[tuple[int, str]]]:
    """The rows of the good records, and the offsets and errors of the others."""
    converter = JsonConverter()
    decoder = TopicDecoder(
        "t", converter, converter, key_schemas=True, value_schemas=True, fill_defaults=False, key_name=None,
        needs_names=False, needs_keys=False,
    )  # fmt: skip
    records = [SinkRecord("t", 0, None, None, schema, value, at) for at, (schema, value) in enumerate(values)]
    (found,) = decode_renamed(lambda _origin, _topic: decoder, records, 0)
    rows = [row for changes in found.changes for row in changes.image.to_pylist()]
    return rows, [(bad.offset, bad.reason.message) for bad in found.bad_records]


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        *((BYTES, wrong) for wrong in (3, True, [1, 2], "ab", 1.5)),
        *((LIST, wrong) for wrong in ("abc", {"k": 1}, {"x"}, b"ab", 5)),
        *((MAP, wrong) for wrong in ([("a", "b")], "ab", 5)),
        *((ROW, wrong) for wrong in (["a"], "x", 5)),
        *((DECIMAL, wrong) for wrong in (1.1, 1, "1.10", b"\x01")),
        *((VARIABLE, wrong) for wrong in (decimal.Decimal("1.5"), {"scale": 1, "value": 3}, {"value": b"\x01"}, 5)),
        *((DATE, wrong) for wrong in (EVENING, 5, "2024-01-01", dt.time(1))),
        *((TIME, wrong) for wrong in (5, EVENING, dt.time(1, 2, 3, tzinfo=ZONE), "01:02:03")),
        *((TIMESTAMP, wrong) for wrong in (5, EVENING.date(), EVENING.time(), "2024-01-01T00:00:00Z")),
        *((TEXT, wrong) for wrong in (5, b"ab", ["a"])),
        *((Schema(Type.INT32, optional=True), wrong) for wrong in (1.0, True, "1")),
        (Schema(Type.BOOLEAN, optional=True), 1),
    ],
    ids=lambda value: value.name or value.type.value if isinstance(value, Schema) else repr(value),
)  # fmt: skip
@pytest.mark.parametrize("is_nested", [False, True], ids=["", "nested"])
def test_a_value_of_a_wrong_python_type_is_errant(field: Schema, wrong: Any, is_nested: bool) -> None:
    inner = SchemaBuilder.struct().field("a", field).build()
    row = SchemaBuilder.struct().field("id", Schema(Type.INT32)).field("s", inner).build() if is_nested else inner

    def value(member: Any) -> Struct:
        of_inner = Struct(inner, [member])
        return Struct(row, [7, of_inner]) if is_nested else of_inner

    rows, bad = decode([(row, value(member)) for member in (None, wrong, None)])
    assert [
        (offset, message.startswith(f"topic t, partition 0, offset 1: field {'s.' * is_nested}a: ")) for offset, message in bad
    ] == [(1, True)], bad
    assert len(rows) == 2


def test_a_single_value_of_a_wrong_python_type_is_errant() -> None:
    rows, bad = decode([(BYTES, b"a"), (BYTES, 4), (BYTES, bytearray(b"b"))])
    assert rows == [{"value": b"a"}, {"value": b"b"}]
    ((offset, message),) = bad
    assert (offset, "offset 1: field value: 4 is of the Python type int, not bytes" in message) == (1, True)


SOURCE = SchemaBuilder.struct().optional().field("ts_ms", Schema(Type.INT64, optional=True)).build()
EVENT = (
    SchemaBuilder.struct()
    .field("before", ROW)
    .field("after", ROW)
    .field("source", SOURCE)
    .field("op", Schema(Type.STRING))
    .build()
)


def event(after: Any = None, source: Any = None, op: Any = "c") -> Struct:
    return Struct(EVENT, [None, Struct(ROW, ["x"]) if after is None else after, source or Struct(SOURCE, [5]), op])


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (5, "5 is not a change event"),
        (["c"], "an array is not a change event"),
        (event(op=5), "field op: 5 is not a string"),
        (event(after=5), "5 is of the Python type int, not Struct"),
    ],
    ids=["number", "list", "op", "after"],
)
def test_a_change_event_of_a_wrong_python_type_is_errant(wrong: Any, reason: str) -> None:
    rows, bad = decode([(EVENT, event()), (EVENT, wrong), (EVENT, event())])
    assert rows == [{"x": "x"}] * 2
    assert [(offset, f"topic t, partition 0, offset 1: {reason}" in message) for offset, message in bad] == [(1, True)], bad


@pytest.mark.parametrize("source", [{"ts_ms": 7}, 5, "x"], ids=repr)
def test_a_source_block_of_another_type_is_read_as_far_as_it_can_be(source: Any) -> None:
    rows, bad = decode([(EVENT, event()), (EVENT, event(source=source))])
    assert (rows, bad) == ([{"x": "x"}] * 2, [])
