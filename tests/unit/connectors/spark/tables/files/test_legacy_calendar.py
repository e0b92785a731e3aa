"""Values of the calendar of Spark 2 are refused where they would be read as others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connectors.spark.tables.files.file_columns import FileColumns, UnreadableColumn, open_parquet
from connectors.spark.tables.files.file_reader import FileRows
from connectors.spark.tables.files.live_files import LiveFile

OLD_DAY, FIRST_DAY = -141_428, -141_427
OLD_MICROS, FIRST_MICROS = -2_208_988_800_000_001, -2_208_988_800_000_000
DATE, TIMESTAMP = pa.date32(), pa.timestamp("us")
SPARK_2 = {"version": "2.4.8"}
LEGACY = {"version": "4.0.0", "legacyDateTime": ""}
LEGACY_INT96 = {"version": "3.5.1", "legacyINT96": ""}


def column(type_: pa.DataType, *numbers: int | None) -> pa.Array:
    return pa.array(numbers, pa.int32() if type_ == DATE else pa.int64()).cast(type_)


def read(folder: Path, values: pa.Array, footer: dict[str, str], **options: Any) -> pa.Array:
    metadata = {f"org.apache.spark.{name}": value for name, value in footer.items()}
    pq.write_table(pa.table({"c": values}).replace_schema_metadata(metadata), folder / "a.parquet", **options)
    with pa.OSFile(str(folder / "a.parquet")) as stream:
        columns = FileColumns.by_name({"c": values.type})
        rows = list(FileRows(LiveFile(0, {}, "a.parquet", 1, 1)).read_open(open_parquet(stream), columns, 10))
    return pa.concat_tables(rows)["c"].combine_chunks()


@pytest.mark.parametrize("footer", [SPARK_2, LEGACY], ids=str)
@pytest.mark.parametrize(("type_", "old", "first"), [(DATE, OLD_DAY, FIRST_DAY), (TIMESTAMP, OLD_MICROS, FIRST_MICROS)])
def test_values_that_spark_would_convert_are_refused_by_name(
    tmp_path: Path, type_: pa.DataType, old: int, first: int, footer: dict[str, str]
) -> None:
    assert read(tmp_path, column(type_, None, first), footer).equals(column(type_, None, first))
    values = column(type_, first, old)
    offsets = pa.array([0, 2], pa.int32())
    nested = [
        pa.StructArray.from_arrays([values], ["at"]),
        pa.ListArray.from_arrays(offsets, values),
        pa.MapArray.from_arrays(offsets, pa.array(["a", "b"]), values),
    ]
    for array in (values, *nested):
        with pytest.raises(UnreadableColumn, match=r"column c of the file a.parquet has dates .* Rewrite such files"):
            read(tmp_path, array, footer)


@pytest.mark.parametrize("footer", [SPARK_2, LEGACY_INT96, {"version": "3.0.2"}], ids=str)
def test_old_timestamps_in_int96_are_refused(tmp_path: Path, footer: dict[str, str]) -> None:
    int96 = {"use_deprecated_int96_timestamps": True}
    assert read(tmp_path, column(TIMESTAMP, FIRST_MICROS), footer, **int96).equals(column(TIMESTAMP, FIRST_MICROS))
    with pytest.raises(UnreadableColumn, match="column c"):
        read(tmp_path, column(TIMESTAMP, OLD_MICROS), footer, **int96)


@pytest.mark.parametrize(
    ("footer", "type_", "options"),
    [
        ({}, DATE, {}),
        ({"version": "3.5.1"}, DATE, {}),
        ({"version": "4.0.0"}, TIMESTAMP, {}),
        (LEGACY_INT96, DATE, {}),
        (LEGACY_INT96, TIMESTAMP, {}),
        (LEGACY, TIMESTAMP, {"use_deprecated_int96_timestamps": True}),
    ],
    ids=str,
)
def test_old_values_that_spark_leaves_alone_are_read(
    tmp_path: Path, footer: dict[str, str], type_: pa.DataType, options: dict[str, Any]
) -> None:
    values = column(type_, OLD_DAY if type_ == DATE else OLD_MICROS)
    assert read(tmp_path, values, footer, **options).equals(values)
