"""What a table refuses in a row makes its record errant, and no other one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import DataError
from connectors.spark.config import TableConfig, WantedLayout
from connectors.spark.decode.change_batch import ChangeBatch, make_meta
from connectors.spark.plan.row_limits import RowLimits
from connectors.spark.plan.rows import RowPreparation
from connectors.spark.plan.truncates import NO_FEEDS
from connectors.spark.schema_settings import SchemaSettings
from connectors.spark.tables.planned_rows import split_bad_records

APPEND = TableConfig("append", (), "hard", "add", ("__offset",), keep_tombstones=True)
UPSERT = TableConfig("upsert", ("id",), "hard", "add", ("__offset",), keep_tombstones=False)
S = pa.struct([("a", pa.int64())])
TABLE = {"id": pa.int64(), "v": pa.string(), "s": S}
REQUIRED = RowLimits(
    required=(
        {"id": 1, "name": "v", "required": True, "type": "string"},
        {
            "id": 2,
            "name": "s",
            "required": False,
            "type": {"type": "struct", "fields": [{"id": 3, "name": "a", "required": True, "type": "long"}]},
        },
        {"id": 4, "name": "__offset", "required": True, "type": "long"},
    )
)


def changes(rows: list[dict[str, Any]], operations: list[str | None] | None = None) -> ChangeBatch:
    names = {name for row in rows for name in row}
    image = pa.table({name: pa.array([row.get(name) for row in rows], TABLE[name]) for name in TABLE if name in names})
    numbers, count = pa.array(range(len(rows)), pa.int64()), len(rows)
    op = pa.array(operations or [None] * count, pa.string())
    meta = make_meta(numbers, op, pa.nulls(count, pa.int64()), pa.array([0] * count, pa.int32()), numbers)
    return ChangeBatch("t", meta, image, None)


def errant(settings: TableConfig, batch: ChangeBatch) -> dict[int, str]:
    rows = RowPreparation("t", settings)
    keys = settings.key_columns
    good, bad = split_bad_records(rows, TABLE, REQUIRED, keys, [batch], NO_FEEDS)
    if good:
        rows.prepare(TABLE, good, keys, limits=REQUIRED)
    assert sum(part.num_rows for part in good) + len(bad) == batch.num_rows
    return {one.offset: one.reason.message for one in bad}


@pytest.mark.parametrize("settings", [APPEND, UPSERT], ids=["append", "upsert"])
def test_records_without_a_required_value_are_errant(settings: TableConfig) -> None:
    rows: list[dict[str, Any]] = [
        {"id": 1, "v": "a"},
        {"id": 2, "v": None},
        {"id": 3, "v": "", "s": {"a": None}},
        {"id": 4, "v": "b", "s": {"a": 1}},
    ]
    assert errant(settings, changes(rows)) == {
        1: "topic t, partition 0, offset 1: column v is required in the table, and the record has no value",
        2: "topic t, partition 0, offset 2: column s.a is required in the table, and the record has no value",
    }


def test_records_without_a_required_column_are_errant() -> None:
    assert list(errant(APPEND, changes([{"id": 1}, {"id": 2}]))) == [0, 1]


def test_a_deleted_row_needs_no_values_unless_it_is_appended() -> None:
    batch = changes([{"id": 1, "v": None}, {"id": 2, "v": "a"}], ["d", "c"])
    assert errant(UPSERT, batch) == {}
    assert list(errant(APPEND, batch)) == [0]


def test_a_value_that_the_table_keeps_need_not_be_in_the_record() -> None:
    keeps = replace(UPSERT, schema=SchemaSettings(keeps_missing=True))
    RowPreparation("t", keeps).prepare(TABLE, [changes([{"id": 1}])], ("id",), limits=REQUIRED)


def test_empty_text_in_a_partition_column_is_errant() -> None:
    limits = RowLimits(("v",))
    rows = RowPreparation("t", APPEND)
    rows.prepare(TABLE, [changes([{"id": 1, "v": None}])], (), limits=limits)
    with pytest.raises(DataError, match="offset 1: partition column v is empty text, which a partition cannot tell from null"):
        rows.prepare(TABLE, [changes([{"id": 1, "v": "a"}, {"id": 2, "v": ""}])], (), limits=limits)


@pytest.mark.parametrize("table", [None, {"id": pa.int64()}])
@pytest.mark.parametrize("name", ["first name", "a,b", "s", "l"])
def test_a_name_that_delta_refuses_makes_its_records_errant(table: Any, name: str) -> None:
    bad = {"s": pa.struct([("a=b", pa.int64())]), "l": pa.list_(pa.struct([("x y", pa.int64())]))}.get(name, pa.int64())
    value = {"s": {"a=b": 1}, "l": [{"x y": 1}]}.get(name, 1)
    numbers = pa.array([0, 1], pa.int64())
    meta = make_meta(numbers, pa.nulls(2, pa.string()), pa.nulls(2, pa.int64()), pa.array([0, 0], pa.int32()), numbers)
    good = ChangeBatch("t", meta.slice(0, 1), pa.table({"id": [1]}), None)
    other = ChangeBatch("t", meta.slice(1, 1), pa.table({"id": [2], name: pa.array([value], bad)}), None)
    limits = RowLimits(plain_names=True)
    plain = replace(APPEND, layout=WantedLayout(plain_names=True))
    found, errors = split_bad_records(RowPreparation("t", plain), table, limits, (), [good, other], NO_FEEDS)
    assert [part.num_rows for part in found] == [1]
    assert [("Delta allows no blanks and none of ,;{}()= in names" in one.reason.message, one.offset) for one in errors] == [
        (True, 1)
    ]
    mapped = RowPreparation("t", APPEND).prepare(table, [other], ())
    assert mapped is not None
    lenient = RowPreparation("t", replace(plain, schema_evolution="lenient")).prepare(None, [other], ())
    assert lenient is not None
    assert list(lenient.columns) == ["id", "_rescued_data"]


def test_a_key_with_a_name_that_delta_refuses_is_errant_also_in_lenient_mode() -> None:
    plain = replace(UPSERT, key_columns=("a b",), schema_evolution="lenient", layout=WantedLayout(plain_names=True))
    numbers = pa.array([0], pa.int64())
    meta = make_meta(numbers, pa.nulls(1, pa.string()), pa.nulls(1, pa.int64()), pa.array([0], pa.int32()), numbers)
    bad = ChangeBatch("t", meta, pa.table({"a b": [2]}), None)
    _, errors = split_bad_records(RowPreparation("t", plain), None, RowLimits(), ("a b",), [bad], NO_FEEDS)
    assert ["Delta allows no blanks" in one.reason.message for one in errors] == [True]
