"""The index from keys to rows of data files."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.errors import SchemaError
from connectors.spark.tables.files.key_encoding import encode_keys
from connectors.spark.tables.files.key_index import EncodedKeys, Ints32, KeyIndex, Mask


def column(values: list[Any], type_: pa.DataType | None = None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, type_)])


def keys_of(values: list[int] | list[str]) -> EncodedKeys:
    return encode_keys([column(values)])[0]


@pytest.mark.parametrize("text", [False, True])
@settings(deadline=None)
@given(st.data())
def test_the_index_finds_what_a_dictionary_finds(text: bool, data: st.DataObject) -> None:
    """Random upserts: each puts the rows of some keys into a new file and deletes their old rows."""
    live: dict[Any, tuple[int, int]] = {}
    deleted: set[tuple[int, int]] = set()

    def is_live(files: Ints32, rows: Ints32) -> Mask:
        return np.array([(int(f), int(r)) not in deleted for f, r in zip(files, rows, strict=True)], bool)

    index = KeyIndex(is_live)
    for file in range(data.draw(st.integers(1, 12))):
        chosen: list[Any] = data.draw(st.lists(st.integers(0, 30), unique=True, max_size=12))
        values = [f"key {n}" for n in chosen] if text else [n - 15 for n in chosen]
        if not values:
            continue
        found = index.find(keys_of(values))
        matched = {values[k]: (int(f), int(r)) for k, f, r in zip(found.keys, found.files, found.rows, strict=True)}
        assert matched == {v: live[v] for v in values if v in live}
        deleted |= set(matched.values())
        rows = np.arange(len(values), dtype=np.int32)
        index.add(keys_of(values), np.full(len(values), file, np.int32), rows)
        live |= {v: (file, row) for row, v in enumerate(values)}
    assert len(index) <= len(live) + len(deleted)


def test_rows_of_one_key_are_all_found() -> None:
    index = KeyIndex(lambda files, rows: np.ones(len(files), bool))
    index.add(keys_of([7, 7, 8]), np.array([0, 0, 0], np.int32), np.array([0, 1, 2], np.int32))
    index.add(keys_of([7]), np.array([1], np.int32), np.array([0], np.int32))
    found = index.find(keys_of([9, 7]))
    assert sorted(zip(found.keys.tolist(), found.files.tolist(), found.rows.tolist(), strict=True)) == [
        (1, 0, 0),
        (1, 0, 1),
        (1, 1, 0),
    ]


def test_keys_that_only_look_alike_differ() -> None:
    encoded, _ = encode_keys([column(["ab", "a", "", "1:a"]), column(["c", "bc", "abc", "bc"])])
    assert len(set(zip(encoded.high.tolist(), (encoded.low if encoded.low is not None else []), strict=True))) == 4


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([0.0, -0.0], pa.float64()),
        ([float("nan"), -float("nan")], pa.float32()),
        ([decimal.Decimal("1.50"), decimal.Decimal("1.5")], pa.decimal128(10, 2)),
    ],
)
def test_keys_that_spark_considers_equal_are_equal(values: list[Any], type_: pa.DataType) -> None:
    encoded, valid = encode_keys([column(values, type_)])
    assert encoded.high[0] == encoded.high[1]
    assert valid.all()


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([b"a", None], pa.binary()),
        ([True, None], pa.bool_()),
        ([dt.datetime(2026, 1, 1), None], pa.timestamp("us")),
        ([dt.date(2026, 1, 1), None], pa.date32()),
        ([1, None], pa.int8()),
    ],
)
def test_rows_without_a_key_are_told_apart(values: list[Any], type_: pa.DataType) -> None:
    assert encode_keys([column(values, type_)])[1].tolist() == [True, False]


def test_a_type_without_equality_cannot_be_a_key() -> None:
    with pytest.raises(SchemaError, match="cannot be a key"):
        encode_keys([column([[("a", 1)]], pa.map_(pa.string(), pa.int64()))])
