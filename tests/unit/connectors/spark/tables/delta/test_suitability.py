"""Which Delta tables the worker may write itself."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.delta.suitability import Obstacle, find_layout_obstacle, find_obstacle

PLAIN: dict[str, Any] = {"partitionColumns": [], "configuration": {}, "schemaString": '{"fields":[]}'}


def with_setting(key: str, value: str) -> dict[str, Any]:
    return {**PLAIN, "configuration": {key: value}}


def with_column(**column: Any) -> dict[str, Any]:
    return {**PLAIN, "schemaString": json.dumps({"fields": [{"name": "a", **column}]})}


def features(*names: str) -> dict[str, Any]:
    return {"minWriterVersion": 7, "writerFeatures": list(names)}


@pytest.mark.parametrize(
    ("metadata", "protocol", "expected"),
    [
        (
            with_setting("delta.columnMapping.mode", "name"),
            {},
            Obstacle("it has delta.columnMapping.mode", "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')"),
        ),
        (
            with_setting("delta.constraints.small", "a < 3"),
            {},
            Obstacle("it has delta.constraints.small", "DROP CONSTRAINT `small`"),
        ),
        (PLAIN, features("rowTracking"), Obstacle("it has the features rowTracking", "DROP FEATURE rowTracking")),
        (PLAIN, {"minWriterVersion": 6}, Obstacle("its writer version is 6", "")),
        (with_column(nullable=False), {}, Obstacle("column a is NOT NULL", "ALTER COLUMN `a` DROP NOT NULL")),
        (with_column(metadata={"delta.generationExpression": "1"}), {}, Obstacle("column a has delta.generationExpression", "")),
        (
            with_column(metadata={"CURRENT_DEFAULT": "1"}),
            {},
            Obstacle("column a has CURRENT_DEFAULT", "ALTER COLUMN `a` DROP DEFAULT"),
        ),
        (
            with_column(metadata={"delta.typeChanges": [{"fromType": "date", "toType": "timestamp_ntz"}]}),
            {},
            Obstacle("column a was a date before it became a timestamp", ""),
        ),
    ],
)
def test_table_that_needs_spark_is_recognized_with_the_way_to_alter_it_back(
    metadata: dict[str, Any], protocol: dict[str, Any], expected: Obstacle
) -> None:
    assert find_obstacle(metadata, protocol, upserts=False) == expected


@pytest.mark.parametrize(
    ("metadata", "protocol"),
    [
        (PLAIN, {"minWriterVersion": 2}),
        (PLAIN, features("appendOnly", "timestampNtz")),
        # What stays in the protocol after the last constraint, default, or mapping is dropped.
        (with_setting("delta.columnMapping.mode", "none"), features("columnMapping", "checkConstraints", "allowColumnDefaults")),
        (PLAIN, {"minWriterVersion": 3}),
        (with_column(metadata={"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]}), features("typeWidening")),
    ],
)
def test_feature_that_nothing_in_the_table_uses_is_no_obstacle(metadata: dict[str, Any], protocol: dict[str, Any]) -> None:
    assert find_obstacle(metadata, protocol, upserts=False) is None


def test_upserts_need_deletion_vectors() -> None:
    found = find_obstacle(PLAIN, {}, upserts=True)
    assert found is not None
    assert found.remedy == "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    assert find_obstacle(with_setting("delta.enableDeletionVectors", "true"), features("deletionVectors"), upserts=True) is None


def test_layouts_by_columns_without_a_text_or_statistics_need_spark() -> None:
    columns = {"data": pa.binary(), "day": pa.date32(), "inner": pa.struct([("n", pa.int64())])}
    assert find_layout_obstacle(TableLayout(columns, ("day",))) is None
    assert find_layout_obstacle(TableLayout(columns, (), ("day",))) is None
    binary, nested = TableLayout(columns, ("data",)), TableLayout(columns, (), ("inner.n",))
    assert find_layout_obstacle(binary) == Obstacle("it is partitioned by column data of type BINARY", "")
    assert find_layout_obstacle(nested) == Obstacle("it is clustered by the nested column inner.n", "CLUSTER BY NONE")
