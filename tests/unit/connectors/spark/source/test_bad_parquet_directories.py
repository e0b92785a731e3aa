"""Files and offsets of a directory that cannot be read are refused with a message that names the file and the remedy."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connect.errors import BadRequestError, ConnectError
from connect.testing import MemoryOffsets, SourceHarness
from connectors.spark import SparkSource
from connectors.spark.source.offsets import table_partition
from connectors.spark.source.task import SparkSourceTask
from tests.support.parquet_directory import ParquetDirectory, rows_of, set_age
from tests.support.replayed_events import FAST, events, poll_all, read_all

CONFIG = {"source.format": "parquet"}


@pytest.fixture
def directory(tmp_path: Path) -> ParquetDirectory:
    found = ParquetDirectory(tmp_path / "orders")
    found.add("a.parquet", rows_of(*range(8)), age_s=1000)
    return found


def read(directory: ParquetDirectory, offsets: MemoryOffsets | None = None, **config: str) -> list[int]:
    records = read_all(directory.folder, offsets, **{"source_format": "parquet", **config})
    return [after["id"] for _, _, after in events(records)]


def stored(directory: ParquetDirectory, offset: Mapping[str, Any] | None) -> MemoryOffsets:
    offsets = MemoryOffsets()
    offsets.store(table_partition(str(directory.folder)), offset)
    return offsets


def offset_at(directory: ParquetDirectory, row: int) -> dict[str, Any]:
    """The offset after some rows of the first file."""
    records = read_all(directory.folder, source_format="parquet")
    return dict(records[row - 1].source_offset or {})


def refusal(directory: ParquetDirectory, offsets: MemoryOffsets | None = None, **config: str) -> str:
    with pytest.raises(ConnectError) as raised:
        read(directory, offsets, **config)
    return raised.value.message


def test_file_that_is_no_parquet_is_named(directory: ParquetDirectory) -> None:
    (directory.folder / "notes.txt").write_text("remember")
    set_age(directory.folder / "notes.txt", 500)
    message = refusal(directory)
    assert f"file notes.txt of {directory.folder} is not a Parquet file, or is damaged" in message
    assert message.endswith("move it away; files whose names start with _ or . are not read")


def test_file_that_is_still_being_written_is_awaited(directory: ParquetDirectory) -> None:
    complete = directory.add("_draft", rows_of(8), age_s=0).read_bytes()
    path = directory.folder / "b.parquet"
    path.write_bytes(complete[:100])
    directory.add("c.parquet", rows_of(9), age_s=-1)
    config = {**FAST, "source.format": "parquet", "source.location": str(directory.folder)}
    with SourceHarness(SparkSourceTask(), config) as harness:
        records = harness.poll()
        while harness.task.progress()["table_progress"]["orders"]["phase"] != "waiting":
            records += harness.poll()
        assert len(records) == 8
        path.write_bytes(complete)
        assert [after["id"] for _, _, after in events(poll_all(harness))] == [8, 9]


def test_damaged_row_group_is_named_and_rows_before_it_are_kept(directory: ParquetDirectory) -> None:
    path = directory.folder / "a.parquet"
    content = bytearray(path.read_bytes())
    page = pq.read_metadata(path).row_group(2).column(0).data_page_offset
    content[page : page + 12] = bytes(12)
    path.write_bytes(content)
    set_age(path, 1000)
    with SourceHarness(SparkSourceTask(), {**FAST, **CONFIG, "source.location": str(directory.folder)}) as harness:
        assert len(harness.poll_records(6)) == 6
        with pytest.raises(ConnectError, match=r"file a.parquet of .* is damaged: .*Restore the file, or move it away"):
            poll_all(harness)


def test_replaced_file_is_refused_and_read_as_another_one_after_a_restart(
    directory: ParquetDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = MemoryOffsets()
    directory.add("b.parquet", rows_of(8), age_s=30)
    config = {**FAST, "source.format": "parquet", "source.location": str(directory.folder)}
    with SourceHarness(SparkSourceTask(), config, offsets) as harness:
        assert len(poll_all(harness)) == 9
        harness.commit()
        directory.add("b.parquet", rows_of(80, 81), age_s=10)
        with pytest.raises(ConnectError, match=r"b.parquet .* was replaced, or has grown, after its rows were read.*Restart"):
            harness.poll_records(1)
    assert read(directory, offsets) == [80, 81]
    assert "reading its new content as another file" in caplog.text


def test_replaced_file_with_an_older_time_than_others_is_refused_and_read_with_a_new_time(directory: ParquetDirectory) -> None:
    offsets = MemoryOffsets()
    directory.add("b.parquet", rows_of(8), age_s=500)
    config = {**FAST, "source.format": "parquet", "source.location": str(directory.folder)}
    with SourceHarness(SparkSourceTask(), config, offsets) as harness:
        assert len(poll_all(harness)) == 9
        harness.commit()
        replaced = directory.add("a.parquet", rows_of(80, 81), age_s=900)
        with pytest.raises(ConnectError, match=r"a.parquet .* was replaced, or has grown, .*\(touch\), and restart the task"):
            harness.poll_records(1)
    assert read(directory, offsets) == []
    set_age(replaced, 400)
    assert read(directory, offsets) == [80, 81]


def test_file_that_is_replaced_in_the_middle_is_refused_until_its_rest_is_given_up(directory: ParquetDirectory) -> None:
    offset = offset_at(directory, 4)
    directory.add("a.parquet", rows_of(50, 51), age_s=900)
    message = refusal(directory, stored(directory, offset))
    assert "file a.parquet" in message
    assert "was replaced, or has grown, when 4 of its rows were done" in message
    assert 'PATCH "rows" of its offset to 4 to continue without the rest of the old content' in message
    assert read(directory, stored(directory, {**offset, "rows": 4})) == [50, 51]
    assert read(directory, stored(directory, offset), source_on_gap="snapshot") == [50, 51]


def test_file_that_is_removed_in_the_middle_is_refused_until_its_rest_is_given_up(directory: ParquetDirectory) -> None:
    offset = offset_at(directory, 4)
    (directory.folder / "a.parquet").unlink()
    directory.add("b.parquet", rows_of(9), age_s=900)
    message = refusal(directory, stored(directory, offset))
    assert "was removed when 4 of its rows were done. Restore the file, or stop the connector and PATCH" in message
    assert read(directory, stored(directory, {**offset, "rows": 4})) == [9]
    assert read(directory, stored(directory, offset), source_on_gap="snapshot") == [9]


def test_file_that_was_read_may_be_removed(directory: ParquetDirectory) -> None:
    offset = offset_at(directory, 8)
    (directory.folder / "a.parquet").unlink()
    directory.add("b.parquet", rows_of(9), age_s=900)
    assert read(directory, stored(directory, offset)) == [9]


def test_file_that_is_removed_before_it_is_read_is_named(directory: ParquetDirectory) -> None:
    directory.add("b.parquet", rows_of(9), age_s=900)
    config = {**FAST, "source.format": "parquet", "source.location": str(directory.folder), "batch.max.rows": "4"}
    with SourceHarness(SparkSourceTask(), config) as harness:
        assert harness.poll_records(4)
        (directory.folder / "b.parquet").unlink()
        with pytest.raises(
            ConnectError, match=r"b.parquet .* was removed before its rows were read. Restart the task to continue"
        ):
            poll_all(harness)


def test_column_with_another_type_names_the_file_and_both_types_also_after_a_restart(directory: ParquetDirectory) -> None:
    offsets = MemoryOffsets()
    read(directory, offsets)
    directory.add("b.parquet", [{"id": "text"}], {"id": pa.string()}, age_s=500)
    for _ in range(2):
        message = refusal(directory, offsets)
        assert message.startswith(
            f"column id of file b.parquet of {directory.folder} is STRING, which does not fit BIGINT of the files before it. "
        )


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"ID": pa.array([1])}, "columns id and ID differ only in case"),
        ({"took": pa.array([dt.timedelta(1)])}, "column took of file b.parquet"),
        (
            {"at": pa.array([1], pa.timestamp("ns"))},
            "file b.parquet of .*column at .*cannot be read as TIMESTAMP_NTZ: Casting from timestamp",
        ),
    ],
)
def test_columns_without_an_exact_type_are_named(directory: ParquetDirectory, columns: dict[str, pa.Array], words: str) -> None:
    directory.add_table("b.parquet", pa.table(columns), age_s=500)
    with pytest.raises(ConnectError, match=words):
        read(directory)


def test_partition_value_that_is_not_of_its_type_is_named(directory: ParquetDirectory) -> None:
    directory.add("day=tomorrow/b.parquet", rows_of(9), age_s=500)
    message = refusal(directory, source_partition_types="day:date")
    assert "file day=tomorrow/b.parquet of" in message
    assert "change source.partition.types" in message


def test_partition_whose_column_is_in_other_files_needs_its_type(directory: ParquetDirectory) -> None:
    directory.add("id=7/b.parquet", [{"v": "b"}], {"v": pa.string()}, age_s=500)
    assert "Set the type of the folder's value in source.partition.types (id:<type>)" in refusal(directory)
    assert read(directory, source_partition_types="id:bigint")[-1] == 7


def test_missing_directory_is_awaited_and_named_with_the_nearest_one(
    directory: ParquetDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    config = {**FAST, "source.format": "parquet", "source.location": f"{directory.folder.parent}/order"}
    with SourceHarness(SparkSourceTask(), config) as harness:
        harness.poll()
        assert harness.task.progress()["missing_tables"] == [f"{directory.folder.parent}/order"]
    assert "there is no directory" in caplog.text
    assert "did you mean orders?" in caplog.text


def _errors(directory: ParquetDirectory, **config: str) -> str:
    keys = {name.replace("_", "."): value for name, value in config.items()}
    props = {"topic": "t", "source.format": "parquet", "source.location": str(directory.folder), **keys}
    return " ".join(error for value in SparkSource().validate(props) for error in value.errors)


def test_validation_names_keys_columns_and_formats(directory: ParquetDirectory) -> None:
    assert _errors(directory, key_columns="id") == ""
    assert "has no column ids (key.columns); did you mean id?" in _errors(directory, key_columns="ids")
    assert "did you mean parquet?" in _errors(directory, source_format="parket")
    assert "did you mean date?" in _errors(directory, source_partition_types="day:dates")
    directory.add_table("b.parquet", pa.table({"took": pa.array([dt.timedelta(1)])}), age_s=0)
    assert "column took of file b.parquet" in _errors(directory)


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        ({"passed": 1}, "did you mean passed_ms?"),
        ({"row": 3}, "an offset needs passed_ms"),
        ({"file": "a.parquet"}, "an offset needs passed_ms"),
        ({"passed_ms": "yesterday"}, "an offset needs passed_ms"),
        ({"passed_ms": 1, "file": "a.parquet"}, "an offset with file needs modified_ms, size_bytes, row too"),
        ({"passed_ms": 1, "row": -1}, "row must be an integer of at least 0"),
        ({"passed_ms": 1, "recent": "abc"}, "recent must be a text that the connector has stored"),
        ({"passed_ms": 1, "recent": "YWJj"}, "it is incomplete"),
        ({"passed_ms": 1, "snapshot": "no"}, "snapshot must be true or false"),
    ],
)
def test_offsets_over_rest_are_checked(directory: ParquetDirectory, offset: dict[str, Any], words: str) -> None:
    config = {"topic": "t", "source.format": "parquet", "source.location": str(directory.folder)}
    partition = tuple(table_partition(str(directory.folder)).items())
    with pytest.raises(BadRequestError) as raised:
        SparkSource().alter_offsets(config, {partition: offset})
    assert words in raised.value.message
    assert SparkSource().alter_offsets(config, {partition: {"passed_ms": 1}})
    assert SparkSource().alter_offsets(config, {partition: offset_at(directory, 3)})


def test_offset_with_only_a_time_continues_with_later_files(directory: ParquetDirectory) -> None:
    path = directory.add("b.parquet", rows_of(9), age_s=500)
    modified_ms = path.stat().st_mtime_ns // 1_000_000
    assert read(directory, stored(directory, {"passed_ms": modified_ms - 1})) == [9]
    assert read(directory, stored(directory, {"passed_ms": modified_ms})) == []
