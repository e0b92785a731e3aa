"""Keys are equal when Spark says so, wherever the sink compares them."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.spark.decode.change_batch import ChangeBatch, make_meta
from connectors.spark.plan.deduplicate import latest_per_key
from connectors.spark.plan.key_equality import last_rows, number_keys
from connectors.spark.tables.files.key_encoding import encode_keys

OTHER_NAN = struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0]
FLOATS = [0.0, -0.0, math.nan, OTHER_NAN, math.inf, -math.inf, 1.5, -1.5, 2.0**-149]
COLUMNS: dict[pa.DataType, list[Any]] = {
    pa.float64(): FLOATS,
    pa.float32(): FLOATS,
    pa.int64(): [-(2**63), 0, 2**63 - 1],
    pa.string(): ["", "a", "ab", "0", "-0"],
    pa.binary(): [b"", b"\0", b"\0\0"],
    pa.bool_(): [False, True],
    pa.decimal128(38, 20): [Decimal(0), Decimal("1E-20"), Decimal("123456789012345678.12345678901234567890")],
    pa.timestamp("us", "UTC"): [-1, 0, 1],
    pa.date32(): [-141_432, 0],
    pa.time64("us"): [0, 86_399_999_999],
}


def column(type_: pa.DataType, values: list[Any]) -> pa.ChunkedArray:
    if pa.types.is_float32(type_):  # keeps the bits of a NaN
        numbers = np.array([0x7FC00000 if v is FLOATS[2] else 0xFFC00001 for v in values], np.uint32)
        plain = np.array([0.0 if math.isnan(v) else v for v in values], np.float32).view(np.uint32)
        nan = np.array([math.isnan(v) for v in values], bool)
        array = pa.array(np.where(nan, numbers, plain).view(np.float32))
    elif pa.types.is_temporal(type_):
        array = pa.array(values, pa.int32() if pa.types.is_date32(type_) else pa.int64()).cast(type_)
    else:
        array = pa.array(values, type_)
    return pa.chunked_array([array])


def normal(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


@pytest.mark.parametrize("type_", COLUMNS, ids=str)
@given(st.data())
def test_all_parts_of_the_sink_agree_on_which_keys_are_equal(type_: pa.DataType, data: st.DataObject) -> None:
    types = [type_, *data.draw(st.lists(st.sampled_from(list(COLUMNS)), max_size=2))]
    drawn = [data.draw(st.lists(st.sampled_from(COLUMNS[one]), min_size=12, max_size=12)) for one in types]
    rows = list(zip(*drawn, strict=True))[: data.draw(st.integers(0, 12))]
    count = len(rows)
    model: dict[tuple[Any, ...], int] = {}
    expected = [model.setdefault(tuple(map(normal, row)), len(model)) for row in rows]
    columns = {f"k{at}": column(one, [row[at] for row in rows]) for at, one in enumerate(types)}

    numbers = number_keys(list(columns.values()), count)
    assert numbers.tolist() == expected
    assert last_rows(numbers).tolist() == [max(i for i in range(count) if expected[i] == n) for n in range(len(model))]
    if not count:
        return
    encoded, has_key = encode_keys(list(columns.values()))
    assert has_key.all()
    low = [0] * count if encoded.low is None else encoded.low.tolist()
    first: dict[Any, int] = {}
    assert [first.setdefault(pair, len(first)) for pair in zip(encoded.high.tolist(), low, strict=True)] == expected

    order = pa.array(range(count), pa.int64())
    texts = pa.array(["c"] * count)
    meta = make_meta(order, texts, pa.nulls(count, pa.int64()), pa.array([0] * count, pa.int32()), order)
    latest = latest_per_key(ChangeBatch("t", meta, pa.table({**columns, "v": order}), None), list(columns), "hard")
    assert latest.rows["v"].to_pylist() == last_rows(numbers).tolist()


@pytest.mark.parametrize("type_", [pa.float64(), pa.float32()])
def test_a_key_keeps_the_value_of_its_last_change(type_: pa.DataType) -> None:
    order = pa.array([0, 1], pa.int64())
    meta = make_meta(order, pa.array(["c", "u"]), pa.nulls(2, pa.int64()), pa.array([0, 0], pa.int32()), order)
    image = pa.table({"k": pa.array([0.0, -0.0], type_)})
    (found,) = latest_per_key(ChangeBatch("t", meta, image, None), ["k"], "hard").rows["k"].to_pylist()
    assert math.copysign(1.0, found) == -1.0
