"""Plain records of ExtractNewRecordState: marks of deletes, operations, and times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import DataError
from connectors.spark.config import TableConfig
from connectors.spark.decode.change_batch import OPERATION, SOURCE_MS, ChangeBatch
from connectors.spark.plan.row_limits import NO_LIMITS
from connectors.spark.plan.rows import RowPreparation
from connectors.spark.plan.truncates import NO_FEEDS
from connectors.spark.plan.unwrapped import unwrap
from connectors.spark.tables.planned_rows import split_bad_records
from tests.unit.connectors.spark.delivery.fakes import changes

APPEND = TableConfig("append", (), "hard", "add", ("__op", "__source_ts"), keep_tombstones=True)
VERSIONS = ("__seq", "__valid_from", "__valid_to", "__current")
UPSERT = TableConfig("upsert", ("id",), "hard", "add", (), keep_tombstones=True)


def batch(ops: list[str | None] | None = None, **columns: Any) -> ChangeBatch:
    image = pa.table({"id": list(range(len(next(iter(columns.values()))))), **columns})
    made = changes(range(image.num_rows), ops=ops)
    meta = made.meta.set_column(2, made.meta.schema.field(SOURCE_MS), pa.nulls(image.num_rows, pa.int64()))
    return ChangeBatch("t", meta, image, None)


@pytest.mark.parametrize("marks", [["true", "false", None], [True, False, None]], ids=["text", "booleans"])
def test_mark_makes_a_delete_in_tables_with_one_row_per_key_and_is_no_column(marks: list[Any]) -> None:
    found = unwrap(batch(__deleted=marks), UPSERT)
    assert found.meta[OPERATION].to_pylist() == ["d", None, None]
    assert found.image.column_names == ["id"]


def test_append_keeps_the_mark_as_a_column() -> None:
    found = unwrap(batch(__deleted=["true", "false"]), APPEND)
    assert found.meta[OPERATION].to_pylist() == [None, None]
    assert found.image["__deleted"].to_pylist() == ["true", "false"]


@pytest.mark.parametrize("marks", [["true", "yes"], [0, 1]])
def test_mark_that_is_neither_true_nor_false_is_refused_by_name(marks: list[Any]) -> None:
    with pytest.raises(DataError, match=r"offset \d: field __deleted is .*; set delete.field"):
        unwrap(batch(__deleted=marks), UPSERT)


def test_without_a_delete_field_the_mark_is_a_column() -> None:
    settings = TableConfig("upsert", ("id",), "hard", "add", (), keep_tombstones=True, delete_field="")
    found = unwrap(batch(__deleted=["true"]), settings)
    assert (found.meta[OPERATION].to_pylist(), found.image.column_names) == ([None], ["id", "__deleted"])


def test_change_events_are_not_touched() -> None:
    made = batch(["u", "r"], __deleted=["true", "no"], __op=["x", "y"])
    assert unwrap(made, UPSERT) is made


def test_operation_and_time_of_the_record_are_its_metadata_columns() -> None:
    rows = RowPreparation("t", APPEND).prepare(None, [batch(__op=["c", "d", None], __source_ts_ms=[5, None, 7])], ())
    assert rows is not None
    assert list(rows.incoming) == ["id", "__source_ts_ms"]
    meta = rows.changes[0].meta
    assert (meta[OPERATION].to_pylist(), meta[SOURCE_MS].to_pylist()) == (["c", "d", None], [5, None, 7])


@pytest.mark.parametrize("ms", [1764534000000000000, -(2**63)], ids=["nanoseconds", "smallest"])
@pytest.mark.parametrize(
    "settings",
    [APPEND, replace(UPSERT, metadata_columns=("__source_ts",)), replace(UPSERT, write_mode="scd2", metadata_columns=VERSIONS)],
    ids=["append", "upsert", "scd2"],
)
def test_time_that_no_column_can_hold_is_refused_by_record_and_field(settings: TableConfig, ms: int) -> None:
    rows = RowPreparation("t", settings)
    with pytest.raises(DataError, match=rf"offset 1: __source_ts_ms is {ms}, .*; it must be in milliseconds"):
        rows.prepare(None, [batch(__source_ts_ms=[5, ms])], settings.key_columns)
    event = batch(["c", "c"], v=[1, 2])
    event = replace(event, meta=event.meta.set_column(2, SOURCE_MS, pa.array([None, ms], pa.int64())))
    with pytest.raises(DataError, match=rf"offset 1: source.ts_ms is {ms}, "):
        rows.prepare(None, [event], settings.key_columns)
    good, bad = split_bad_records(rows, None, NO_LIMITS, settings.key_columns, [event], NO_FEEDS)
    assert ([one.num_rows for one in good], [one.offset for one in bad]) == ([1], [1])


def test_time_matters_only_where_a_column_has_it() -> None:
    assert RowPreparation("t", UPSERT).prepare(None, [batch(__source_ts_ms=[2**62])], ("id",)) is not None


def test_operation_stays_a_column_where_no_metadata_column_has_its_name() -> None:
    found = unwrap(batch(__op=["c", "d"]), UPSERT)
    assert (found.meta[OPERATION].to_pylist(), found.image.column_names) == ([None, None], ["id", "__op"])


@pytest.mark.parametrize("operation", ["d", "t", "m"])
def test_operation_alone_does_not_act_on_rows(operation: str) -> None:
    """A delete is what the mark says: ``__op=d`` alone, or a truncate, must not change other rows in silence."""
    settings = TableConfig("upsert", ("id",), "hard", "add", ("__op",), keep_tombstones=True)
    with pytest.raises(DataError, match="the records have a field __op, which is also a metadata column"):
        RowPreparation("t", settings).prepare(None, [batch(__op=[operation])], ())
    marked = unwrap(batch(__op=["d", "u"], __deleted=["true", "false"]), settings)
    assert (marked.meta[OPERATION].to_pylist(), marked.image.column_names) == (["d", "u"], ["id"])


@pytest.mark.parametrize("operation", ["tombstone", "ignored"])
@pytest.mark.parametrize("keeps", [True, False])
def test_operation_that_the_sink_gives_to_records_is_refused_by_name(operation: str, keeps: bool) -> None:
    with pytest.raises(DataError, match=f"offset 1: field __op is '{operation}'.*remove __op from metadata.columns"):
        RowPreparation("t", replace(APPEND, keep_tombstones=keeps)).prepare(None, [batch(__op=["c", operation])], ())
    settings = replace(APPEND, metadata_columns=("__offset",), keep_tombstones=keeps)
    rows = RowPreparation("t", settings).prepare(None, [batch(__op=["c", operation])], ())
    assert rows is not None
    assert rows.changes[0].image["__op"].to_pylist() == ["c", operation]
