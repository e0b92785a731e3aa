"""Operations in a field of the row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import DataError
from connectors.spark.decode.change_batch import OPERATION, ChangeBatch, make_meta
from connectors.spark.plan.operation_field import with_operations


def _changes(values: list[Any], operations: list[str | None]) -> ChangeBatch:
    count = len(values)
    places = pa.array([0] * count, pa.int32()), pa.array(range(count), pa.int64())
    meta = make_meta(pa.array(range(count), pa.int64()), pa.array(operations, pa.string()), pa.nulls(count, pa.int64()), *places)
    return ChangeBatch(
        "t", meta, pa.table({"_cdc": pa.array([{"op": v} for v in values], pa.struct([("op", pa.string())]))}), None
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [("D", "d"), (" delete", "d"), ("U", "u"), ("update", "u"), ("I", None), ("", None), (None, None), ("R", None)],
)
def test_first_letter_counts(value: str | None, expected: str | None) -> None:
    changes = with_operations(_changes([value], [None]), ("_cdc", "op"))
    assert changes.meta[OPERATION].to_pylist() == [expected]


def test_change_events_and_tombstones_keep_their_operations() -> None:
    changes = with_operations(_changes(["D", "D", "D"], ["c", "tombstone", None]), ("_cdc", "op"))
    assert changes.meta[OPERATION].to_pylist() == ["c", "tombstone", "d"]


@pytest.mark.parametrize("path", [("other",), ("_cdc", "other"), ("_cdc", "op", "deep")])
def test_missing_field_changes_nothing(path: tuple[str, ...]) -> None:
    assert with_operations(_changes(["D"], [None]), path).meta[OPERATION].to_pylist() == [None]


@pytest.mark.parametrize("value", [{"op": "D"}, ["D"]])
def test_field_with_several_values_is_an_error_that_names_the_record(value: Any) -> None:
    changes = _changes(["D", "D"], [None, None])
    changes = replace(changes, image=pa.table({"_cdc": pa.array([None, value])}))
    with pytest.raises(DataError, match=r"offset 1: the field _cdc has several values"):
        with_operations(changes, ("_cdc",))


def test_bytes_that_are_no_text_are_an_error_that_names_the_field() -> None:
    changes = replace(_changes(["D"], [None]), image=pa.table({"_cdc": pa.array([b"\xff"])}))
    with pytest.raises(DataError, match=r"topic t: the field _cdc is no text"):
        with_operations(changes, ("_cdc",))
