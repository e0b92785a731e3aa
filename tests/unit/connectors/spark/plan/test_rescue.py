"""``schema.evolution=lenient``: what a table cannot hold is in the rescue column, exactly; nothing is lost."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connect.converters.json.converter import JsonConverter
from connect.errors import ConnectError, DataError
from connectors.spark.config import TableConfig
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.tolerant_decoding import decode_raw_tolerantly
from connectors.spark.decode.topic_decoder import TopicDecoder
from connectors.spark.plan.evolution import Columns
from connectors.spark.plan.rows import RowPreparation
from connectors.spark.schema_settings import LENIENT
from tests.unit.connectors.spark.delivery.fakes import changes

RESCUE = "_rescued_data"
D = decimal.Decimal
NUMBERS = (int, float, decimal.Decimal)
APPENDS = TableConfig("append", (), "hard", LENIENT, ("__offset",), keep_tombstones=True)
UPSERTS = TableConfig("upsert", ("id",), "hard", LENIENT, (), keep_tombstones=True)


def prepare(table: Columns | None, *images: pa.Table, table_settings: TableConfig = APPENDS) -> list[dict[str, Any]]:
    batches = [ChangeBatch("t", changes(range(image.num_rows)).meta, image, None) for image in images]
    return prepared_rows(table, batches, table_settings)


def prepared_rows(
    table: Columns | None, batches: list[ChangeBatch], table_settings: TableConfig = APPENDS
) -> list[dict[str, Any]]:
    prepared = RowPreparation("t", table_settings).prepare(table, batches, ())
    assert prepared is not None
    return [row for part in prepared.changes for row in part.image.to_pylist()]


def rescued(row: dict[str, Any]) -> Any:
    return None if row[RESCUE] is None else json.loads(row[RESCUE], parse_float=D)


def test_value_that_does_not_fit_is_null_and_its_text_is_rescued() -> None:
    table = {"n": pa.int8(), "t": pa.string()}
    rows = prepare(table, pa.table({"n": pa.array([1, 300, None]), "t": ["a", "b", "c"], "new": [None, "x", 'say "ü"']}))
    assert [(r["n"], r["t"], rescued(r)) for r in rows] == [
        (1, "a", None),
        (None, "b", {"n": 300, "new": "x"}),
        (None, "c", {"new": 'say "ü"'}),
    ]


def test_values_of_all_types_are_rescued_exactly() -> None:
    far = pa.array([2**31 - 1], pa.int32()).cast(pa.date32())
    image = pa.table(
        {
            "d": pa.array([D("12345678901234567890.10")], pa.decimal128(38, 2)),
            "f": pa.array([0.1]),
            "nan": pa.array([float("-inf")]),
            "b": pa.array([b"\x00\xff"]),
            "day": pa.array([dt.date(2026, 1, 2)]),
            "far": far,
            "at": pa.array([dt.datetime(2026, 1, 2, 3, 4, 5, 6)], pa.timestamp("us")),
            "s": pa.array(
                [{"x": [1, None], "m": {"k": "v"}}],
                pa.struct([("x", pa.list_(pa.int64())), ("m", pa.struct([("k", pa.string())]))]),
            ),
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    (row,) = prepare({"id": pa.int64()}, image)
    assert row[RESCUE] == (
        '{"d":12345678901234567890.10,"f":0.1,"nan":"-Infinity","b":"AP8=","day":"2026-01-02","far":2147483647,'
        '"at":"2026-01-02T03:04:05.000006","s":{"x":[1,null],"m":{"k":"v"}},"map":[{"key":"k","value":1}]}'
    )  # fmt: skip


def test_object_keeps_the_fields_that_the_column_has_and_is_rescued_as_a_whole() -> None:
    table = {"s": pa.struct([("a", pa.int64())]), "l": pa.list_(pa.struct([("a", pa.int64())]))}
    image = pa.table(
        {
            "s": pa.array([{"a": 1, "b": None}, {"a": 1, "b": 2}, None], pa.struct([("a", pa.int64()), ("b", pa.int64())])),
            "l": pa.array([[{"a": 1, "c": None}], None, [{"a": 1, "c": None}, {"a": 2, "c": "x"}]],
                          pa.list_(pa.struct([("a", pa.int64()), ("c", pa.string())]))),
        }
    )  # fmt: skip
    rows = prepare(table, image)
    assert [(r["s"], r["l"], rescued(r)) for r in rows] == [
        ({"a": 1}, [{"a": 1}], None),
        ({"a": 1}, None, {"s": {"a": 1, "b": 2}}),
        (None, [{"a": 1}, {"a": 2}], {"l": [{"a": 1, "c": None}, {"a": 2, "c": "x"}]}),
    ]


def test_names_that_a_table_cannot_have_are_rescued_and_types_that_differ() -> None:
    first = pa.table({"a": [1], "A": [2], "__offset": [3], "__sluice_x": [4], RESCUE: ["mine"]})
    rows = prepare(None, first, pa.table({"a": ["text"]}))
    assert [(r["a"], rescued(r)) for r in rows] == [
        (1, {"A": 2, "__offset": 3, "__sluice_x": 4, RESCUE: "mine"}),
        (None, {"a": "text"}),
    ]


def test_key_that_does_not_fit_is_refused_because_it_names_the_row() -> None:
    with pytest.raises(DataError, match="column id is BIGINT in the table, but STRING"):
        prepare({"id": pa.int64()}, pa.table({"id": ["x"]}), table_settings=UPSERTS)
    with pytest.raises(ConnectError, match=r"column _rescued_data is BIGINT in the table.*rescue\.column") as error:
        prepare({"id": pa.int64(), RESCUE: pa.int64()}, pa.table({"id": [1]}))
    assert not isinstance(error.value, DataError)


leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.text('aü"\\\n', max_size=3)
    | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=2), max_leaves=4
)
documents = st.lists(
    st.dictionaries(st.sampled_from(["a", "b", "c", RESCUE]), values, min_size=1, max_size=4), min_size=1, max_size=6
)


def has(column: Any, value: Any) -> bool:
    """Whether the column has the value. An object of a column has all its fields, and those without a value are null."""
    if isinstance(value, dict) and isinstance(column, dict):
        return all(has(column.get(n), v) for n, v in value.items())
    if isinstance(value, list) and isinstance(column, list):
        return len(value) == len(column) and all(map(has, column, value))
    if isinstance(column, NUMBERS) and isinstance(value, NUMBERS) and bool not in (type(column), type(value)):
        # A double has the value if its text is that of the value, or it is exactly that integer (2**63 is 9.223372036854776e+18).
        return D(str(column)) == D(str(value)) or (isinstance(value, int) and D(float(column)) == value)
    return type(column) is type(value) and bool(column == value)


@settings(max_examples=30, deadline=None)
@example([{RESCUE: 2**63 + 2**53}], [{"a": 2**63 + 2**53}], False)
@example([{"a": 2**63 + 2**53}], [{"a": 2**63 + 2**53 + 1}], True)
@given(documents, documents, st.booleans())
def test_each_value_of_documents_without_a_schema_is_in_its_column_or_rescued(
    first: list[dict[str, Any]], second: list[dict[str, Any]], envelopes: bool
) -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, is_key=False)
    decoder = TopicDecoder(
        "t", converter, converter, key_schemas=False, value_schemas=False, fill_defaults=False, key_name=None,
        needs_names=False, needs_keys=False, rescues=True,
    )  # fmt: skip
    table: Columns | None = None
    for part in (first, second):
        nodes = [{"op": "c", "source": {}, "before": None, "after": d} if envelopes else d for d in part]
        raw = RawBuffer("t", [0] * len(part), list(range(len(part))), [None] * len(part), [json.dumps(n).encode() for n in nodes])
        batches, bad = decode_raw_tolerantly(decoder, raw, 0)
        for one in bad:  # no record had a value yet, so there is no column at all
            assert "no field of these records has had a value yet" in one.reason.message
        if not batches:
            continue
        prepared = RowPreparation("t", APPENDS).prepare(table, batches, ())
        assert prepared is not None
        table = prepared.columns if table is None else table
        for batch in prepared.changes:
            for offset, row in zip(batch.meta["offset"].to_pylist(), batch.image.to_pylist(), strict=True):
                aside = rescued(row) or {}
                for name, value in json.loads(json.dumps(part[offset]), parse_float=D).items():
                    if value is not None and name != RESCUE and has(row.get(name), value):
                        continue
                    assert value is None or has(aside[name], value), (name, value, row)
