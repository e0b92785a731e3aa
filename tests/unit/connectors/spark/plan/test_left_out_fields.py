"""``schema.evolution=none``: fields that the table lacks are left out, whatever they hold."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from connect.errors import SchemaError
from connectors.spark.config import TableConfig
from connectors.spark.decode.change_batch import ChangeBatch, make_meta
from connectors.spark.plan.evolution import MAX_DEPTH, Columns
from connectors.spark.plan.row_limits import NO_LIMITS
from connectors.spark.plan.rows import RowPreparation
from connectors.spark.plan.truncates import NO_FEEDS
from connectors.spark.tables.planned_rows import split_bad_records

TABLE: Columns = {"id": pa.int64(), "s": pa.struct([("a", pa.int64())])}
ROWS = RowPreparation("t", TableConfig("append", (), "hard", "none", (), keep_tombstones=True))


def changes(id_: int, **fields: pa.Array) -> ChangeBatch:
    number, text = pa.array([id_]), pa.nulls(1, pa.string())
    meta = make_meta(number, text, number, pa.array([0], pa.int32()), number)
    return ChangeBatch("t", meta, pa.table({"id": number, **fields}), None)


def written(*batches: ChangeBatch) -> list[dict[str, Any]]:
    prepared = ROWS.prepare(TABLE, batches, ())
    assert prepared is not None
    return [row for part in prepared.changes for row in part.image.to_pylist()]


def test_types_of_fields_that_are_left_out_need_not_fit_together() -> None:
    batches = [changes(1, n=pa.array([1])), changes(2, n=pa.array(["z"])), changes(3, n=pa.array([[1.5]]))]
    assert written(*batches) == [{"id": id_} for id_ in (1, 2, 3)]
    assert split_bad_records(ROWS, TABLE, NO_LIMITS, (), batches, NO_FEEDS)[1] == []


def test_types_of_nested_fields_that_are_left_out_need_not_fit_together() -> None:
    assert written(changes(1, s=pa.array([{"a": 1, "n": 1}])), changes(2, s=pa.array([{"a": 2, "n": "z"}]))) == [
        {"id": 1, "s": {"a": 1}},
        {"id": 2, "s": {"a": 2}},
    ]


def test_a_field_that_is_left_out_may_be_nested_deeply() -> None:
    deep = pa.int64()
    for _ in range(MAX_DEPTH + 1):
        deep = pa.struct([("x", deep)])
    assert written(changes(1, n=pa.nulls(1, deep))) == [{"id": 1}]
    with pytest.raises(SchemaError, match="nested more than"):
        RowPreparation("t", TableConfig("append", (), "hard", "add", (), keep_tombstones=True)).prepare(
            TABLE, [changes(1, n=pa.nulls(1, deep))], ()
        )


def test_types_of_the_first_records_of_a_new_table_must_fit_together() -> None:
    with pytest.raises(SchemaError, match="column n is both BIGINT and STRING"):
        ROWS.prepare(None, [changes(1, n=pa.array([1])), changes(2, n=pa.array(["z"]))], ())
