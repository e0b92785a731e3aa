"""What commits of other writers do to an Iceberg table: snapshots that PyIceberg writes, and summaries of Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from connectors.spark.tables.effects import Effect
from connectors.spark.tables.iceberg.offsets import COMMIT, effect_of


@pytest.mark.parametrize(
    ("change", "effects"),
    [
        (lambda t, rows: t.append(rows), [Effect.ADDS_ROWS]),
        (lambda t, rows: t.delete("id = 1"), [Effect.CHANGES_ROWS]),
        (lambda t, rows: t.overwrite(rows), [Effect.CHANGES_ROWS, Effect.ADDS_ROWS]),
    ],
    ids=["append", "delete", "overwrite"],
)
def test_snapshots_of_pyiceberg(tmp_path: Path, change: Callable[[Any, pa.Table], None], effects: list[Effect]) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("n")
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    table = catalog.create_table("n.t", rows.schema)
    table.append(rows)
    before = len(table.snapshots())
    change(table, rows)
    summaries = [snapshot.summary for snapshot in table.snapshots()[before:]]
    found = [{"operation": s.operation.value, "summary": s.additional_properties} for s in summaries if s is not None]
    assert [effect_of(one) for one in found] == effects


def snapshot(operation: str, **summary: str) -> dict[str, Any]:
    return {"operation": operation, "summary": {key.replace("_", "-"): value for key, value in summary.items()}}


@pytest.mark.parametrize(
    ("found", "effect"),
    [
        (snapshot("append", added_data_files="1"), Effect.ADDS_ROWS),
        (snapshot("replace", added_data_files="1", total_data_files="1"), Effect.REARRANGES),
        (snapshot("overwrite", added_data_files="1", total_data_files="1"), Effect.CHANGES_ROWS),
        (
            snapshot("overwrite", replace_partitions="true", added_data_files="1", total_data_files="1"),
            Effect.CHANGES_ROWS | Effect.MOVES_HISTORY,
        ),
        (snapshot("overwrite", replace_partitions="true", added_data_files="1", total_data_files="3"), Effect.CHANGES_ROWS),
        (snapshot("None"), Effect.CHANGES_ROWS),  # of a table of version 1, whose snapshots need no summary
    ],
)
def test_snapshots_of_spark(found: dict[str, Any], effect: Effect) -> None:
    assert effect_of(found) == effect


def test_an_overwrite_of_the_sink_moves_no_history() -> None:
    own = snapshot("overwrite", replace_partitions="true", added_data_files="1", total_data_files="1")
    own["summary"][COMMIT] = "an ID"
    assert effect_of(own) == Effect.CHANGES_ROWS
