"""Files that are added to Delta tables without Spark."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pytest

from connectors.spark.tables.delta.data_files import DataFileWriter, file_statistics


def test_bounds_include_every_value() -> None:
    rows = pa.table({"n": [3, None, 1], "long": ["x" * 40, "a", None], "day": [dt.date(2026, 1, 1)] * 3})
    assert file_statistics(rows) == {
        "numRecords": 3,
        "minValues": {"n": 1, "long": "a", "day": "2026-01-01"},
        "maxValues": {"n": 3, "long": "x" * 32 + "\U0010ffff", "day": "2026-01-01"},
        "nullCount": {"n": 1, "long": 1, "day": 0},
    }


@pytest.mark.parametrize(("zone", "suffix"), [("UTC", "Z"), (None, "")])
def test_bounds_of_timestamps_are_rounded_outwards_to_milliseconds(zone: str | None, suffix: str) -> None:
    rows = pa.table({"at": pa.array([-1, 1_000_001], pa.int64()).cast(pa.timestamp("us", zone))})
    statistics = file_statistics(rows)
    assert statistics["minValues"] == {"at": "1969-12-31T23:59:59.999" + suffix}
    assert statistics["maxValues"] == {"at": "1970-01-01T00:00:01.001" + suffix}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_json_lacks_leave_no_bounds(value: float) -> None:
    assert file_statistics(pa.table({"x": [1.0, value]}))["minValues"] == {}


def test_decimals_are_written_with_all_digits(tmp_path: Path) -> None:
    values = [decimal.Decimal("12345678901234567890.1200"), decimal.Decimal("-0.0001")]
    rows = pa.table({"d": pa.array(values, pa.decimal128(38, 4))})
    add = DataFileWriter(pa.fs.LocalFileSystem(), str(tmp_path), 1000).write(rows)
    assert '"maxValues":{"d":12345678901234567890.1200}' in add["stats"]
    assert json.loads(add["stats"])["minValues"] == {"d": -0.0001}


@pytest.mark.parametrize("day", [-719_164, 2_932_897, 2**31 - 1])
def test_dates_outside_pythons_years_have_no_statistics(day: int) -> None:
    rows = pa.table({"day": pa.array([0, day], pa.int32()).cast(pa.date32())})
    assert file_statistics(rows) == {"numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {"day": 0}}
