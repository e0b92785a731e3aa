"""Columns that are found by names in other case."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from connect.errors import DataError
from connectors.spark.decode.change_batch import ChangeBatch, make_meta
from connectors.spark.plan.name_case import with_table_names


def _changes(columns: dict[str, Any], keys: dict[str, Any] | None = None) -> ChangeBatch:
    image = pa.table(columns)
    count = image.num_rows
    places = pa.array([0] * count, pa.int32()), pa.array(range(count), pa.int64())
    none = pa.nulls(count, pa.string())
    meta = make_meta(pa.array(range(count), pa.int64()), none, pa.nulls(count, pa.int64()), *places)
    return ChangeBatch("t", meta, image, None if keys is None else pa.table(keys))


def test_columns_and_nested_fields_get_the_names_of_the_table() -> None:
    table = {"id": pa.int64(), "at": pa.struct([("place", pa.struct([("Zip", pa.string())]))])}
    given = _changes({"ID": [1, 2], "AT": [{"Place": {"zip": "x"}, "New": 1}, None]}, {"Id": [1, 2]})
    (found,) = with_table_names([given], table)
    assert found.image.to_pylist() == [{"id": 1, "at": {"place": {"Zip": "x"}, "New": 1}}, {"id": 2, "at": None}]
    assert found.keys is not None
    assert found.keys.column_names == ["id"]


def test_first_record_names_a_new_column() -> None:
    first, second = with_table_names([_changes({"Name": ["a"]}), _changes({"NAME": ["b"]})], {})
    assert (first.image.column_names, second.image.column_names) == (["Name"], ["Name"])


def test_fields_of_different_records_become_one_column() -> None:
    (found,) = with_table_names([_changes({"n": pa.array([None, 1, None]), "N": pa.array([5, None, None], pa.int32())})], {})
    assert found.image.to_pylist() == [{"n": 5}, {"n": 1}, {"n": None}]


def test_two_values_for_one_column_name_the_record() -> None:
    with pytest.raises(DataError, match=r"offset 1.*two fields have the name n"):
        with_table_names([_changes({"n": [None, 1], "N": [2, 3]})], {})


@pytest.mark.parametrize("other", [["x", None], ["007", None], [True, None], [0.5, None]], ids=str)
def test_values_that_do_not_fit_together_are_an_error(other: list[Any]) -> None:
    with pytest.raises(DataError, match="two fields have the name n"):
        with_table_names([_changes({"n": [None, 1], "N": other})], {})


def test_two_nested_fields_with_one_name_are_an_error() -> None:
    with pytest.raises(DataError, match=r"two fields have the name s\.a"):
        with_table_names([_changes({"s": [{"A": 1, "a": 2}]})], {"s": pa.struct([("a", pa.int64())])})
