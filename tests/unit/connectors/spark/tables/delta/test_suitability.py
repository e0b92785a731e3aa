"""Which Delta tables the worker may write itself."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.delta.suitability import find_layout_obstacle, find_obstacle


def test_tables_that_need_spark_are_recognized_by_their_metadata() -> None:
    plain: dict[str, Any] = {"partitionColumns": [], "configuration": {}, "schemaString": '{"fields":[]}'}
    assert find_obstacle(plain, {"minWriterVersion": 2}, upserts=False) is None
    assert find_obstacle(plain, {"minWriterVersion": 7, "writerFeatures": ["appendOnly", "timestampNtz"]}, upserts=False) is None
    assert find_obstacle({**plain, "configuration": {"delta.columnMapping.mode": "name"}}, {}, upserts=False) is not None
    assert (
        find_obstacle(plain, {"minWriterVersion": 7, "writerFeatures": ["rowTracking"]}, upserts=False)
        == "it has the features rowTracking"
    )
    generated = '{"fields":[{"name":"a","metadata":{"delta.generationExpression":"1"}}]}'
    assert (
        find_obstacle({**plain, "schemaString": generated}, {}, upserts=False) == "column a has a constraint or column metadata"
    )


def test_upserts_need_deletion_vectors() -> None:
    plain: dict[str, Any] = {"partitionColumns": [], "configuration": {}, "schemaString": '{"fields":[]}'}
    assert "deletion vectors" in (find_obstacle(plain, {}, upserts=True) or "")
    enabled = {**plain, "configuration": {"delta.enableDeletionVectors": "true"}}
    assert find_obstacle(enabled, {"minWriterVersion": 7, "writerFeatures": ["deletionVectors"]}, upserts=True) is None


def test_layouts_by_columns_without_a_text_or_statistics_need_spark() -> None:
    columns = {"data": pa.binary(), "day": pa.date32(), "inner": pa.struct([("n", pa.int64())])}
    assert find_layout_obstacle(TableLayout(columns, ("day",))) is None
    assert find_layout_obstacle(TableLayout(columns, (), ("day",))) is None
    assert find_layout_obstacle(TableLayout(columns, ("data",))) == "it is partitioned by column data of type BINARY"
    assert find_layout_obstacle(TableLayout(columns, (), ("inner.n",))) == "it is clustered by the nested column inner.n"
