"""Files that are added to Delta tables without Spark."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from connectors.spark.tables.delta_files import file_statistics, find_obstacle


def test_tables_that_need_dataframes_are_recognized_by_their_metadata() -> None:
    plain: dict[str, Any] = {"partitionColumns": [], "configuration": {}, "schemaString": '{"fields":[]}'}
    assert find_obstacle(plain, {"minWriterVersion": 2}) is None
    assert find_obstacle(plain, {"minWriterVersion": 7, "writerFeatures": ["appendOnly", "timestampNtz"]}) is None
    assert find_obstacle({**plain, "partitionColumns": ["a"]}, {}) == "it is partitioned"
    assert find_obstacle({**plain, "configuration": {"delta.columnMapping.mode": "name"}}, {}) is not None
    assert find_obstacle(plain, {"minWriterVersion": 7, "writerFeatures": ["rowTracking"]}) == "it has the features rowTracking"
    generated = '{"fields":[{"name":"a","metadata":{"delta.generationExpression":"1"}}]}'
    assert find_obstacle({**plain, "schemaString": generated}, {}) == "column a has a constraint or column metadata"


def test_statistics_are_exact_or_absent() -> None:
    rows = pa.table({"n": [3, None, 1], "long": ["x" * 40, "a", None], "day": [dt.date(2026, 1, 1)] * 3})
    assert file_statistics(rows) == {
        "numRecords": 3,
        "minValues": {"n": 1, "day": "2026-01-01"},
        "maxValues": {"n": 3, "day": "2026-01-01"},
        "nullCount": {"n": 1, "long": 1, "day": 0},
    }


@pytest.mark.parametrize("day", [-719_164, 2_932_897, 2**31 - 1])
def test_dates_outside_pythons_years_have_no_statistics(day: int) -> None:
    rows = pa.table({"day": pa.array([0, day], pa.int32()).cast(pa.date32())})
    assert file_statistics(rows) == {"numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {"day": 0}}
