"""Which rows of a table count, in a Parquet table of all events."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyarrow import parquet
from pyiceberg.catalog import load_catalog

from connect.errors import ConfigError, ConnectError
from connect.verification import EventTable, KeyFilter, PartitionEvents
from connectors.spark.config import parse_config
from connectors.spark.verification.sink import SparkVerification
from connectors.spark.verification.tables import open_iceberg_table, python_values

EVENTS = {
    "id": [1, 2, 3, 1, 2, 4],
    "name": ["a", "b", "c", "a2", None, "d"],
    "__op": ["r", "c", "c", "u", "d", "c"],
    "__partition": [0] * 6,
    "__offset": [0, 1, 2, 3, 4, 5],
}


def sink(folder: Path, **more: str) -> SparkVerification:
    settings = {"topics": "t", "table.location": str(folder), "table.format": "parquet", "write.mode": "append", **more}
    return SparkVerification(parse_config({key.replace("_", "."): value for key, value in settings.items()}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t").mkdir()
    parquet.write_table(pa.table(EVENTS), tmp_path / "t" / "part.parquet")
    return tmp_path


def test_newest_event_of_each_key_counts_unless_it_is_a_delete(folder: Path) -> None:
    table = sink(folder, metadata_columns="__op,__partition,__offset").open("t", ("id",))
    rows = [row for batch in table.rows(["id", "name"]) for row in zip(batch["id"], batch["name"], strict=True)]
    assert sorted(rows) == [(1, "a2"), (3, "c"), (4, "d")]
    (batch,) = table.rows(["id"], KeyFilter("id", [3, 2]))
    assert batch["id"] == [3]


def test_events_are_counted_by_partition_and_repeated_ones_are_found(folder: Path) -> None:
    parquet.write_table(
        pa.table({**EVENTS, "__partition": [0] * 5 + [1], "__offset": [0, 1, 5, 5, 4, 7]}), folder / "t" / "part.parquet"
    )
    table = sink(folder, metadata_columns="__op,__partition,__offset").open("t", ("id",))
    assert isinstance(table, EventTable)
    assert table.partition_events() == [
        PartitionEvents(None, 0, events=5, offsets=4, first=0, last=5, repeated=[5]),
        PartitionEvents(None, 1, events=1, offsets=1, first=7, last=7, repeated=()),
    ]


MOVED = {
    "id": [1, 2, 1, 2, 2, 3],
    "name": ["old", "b", "new", None, None, "c"],
    "__op": ["c", "c", "u", "d", "tombstone", "c"],
    "__seq": ["01", "02", "03", "04", None, "05"],
    "__source_ts": pa.array([1, 2, 3, 4, None, 5], pa.timestamp("us", "UTC")),
    "__partition": pa.array([0, 0, 1, 1, 1, 1], pa.int32()),
    "__offset": [7, 8, 0, 1, 2, 3],
}
"""Events of keys that are in another partition since partitions were added."""


@pytest.mark.parametrize("table_format", ["parquet", "delta"])
@pytest.mark.parametrize("left_out", ["__seq", "__source_ts"])
def test_newest_event_of_a_key_in_several_partitions_is_that_of_the_newest_position_or_time(
    tmp_path: Path, table_format: str, left_out: str
) -> None:
    events = pa.table(MOVED).drop_columns([left_out])
    location = tmp_path / "t"
    if table_format == "delta":
        write_deltalake(location, events)
    else:
        location.mkdir()
        parquet.write_table(events, location / "part.parquet")
    columns = ",".join(name for name in events.column_names if name.startswith("__"))
    table = sink(tmp_path, metadata_columns=columns, table_format=table_format).open("t", ("id",))
    rows = [row for batch in table.rows(["name"]) for row in batch["name"]]
    assert sorted(rows) == ["c", "new"]
    assert isinstance(table, EventTable)
    assert [one.events for one in table.partition_events()] == [2, 4]


@pytest.mark.parametrize("times", [[1, 2, 1, 3, 4, 5], [None] * 6, None])
def test_table_that_does_not_tell_the_newest_event_of_a_key_is_refused(tmp_path: Path, times: list[int | None] | None) -> None:
    events = pa.table(MOVED).drop_columns(["__seq", "__source_ts"])
    if times is not None:
        events = events.append_column("__source_ts", pa.array(times, pa.timestamp("us", "UTC")))
    (tmp_path / "t").mkdir()
    parquet.write_table(events, tmp_path / "t" / "part.parquet")
    table = sink(tmp_path, metadata_columns="__op,__partition,__offset").open("t", ("id",))
    assert isinstance(table, EventTable)
    with pytest.raises(ConfigError, match=rf"newest event of {1 if times and times[0] else 2} keys .* __seq"):
        table.partition_events()


def test_columns_and_nested_fields_that_older_files_lack_are_null(folder: Path) -> None:
    first = folder / "t" / "0.parquet"
    (folder / "t" / "part.parquet").unlink()
    events = pa.table({**EVENTS, "s": [{"a": 1}] * 6})
    parquet.write_table(events, first)
    newer = {**EVENTS, "id": [7] * 6, "__offset": list(range(6, 12)), "__op": ["u"] * 6}
    parquet.write_table(pa.table({**newer, "s": [{"a": 1, "b": "x"}] * 6, "added": [5] * 6}), folder / "t" / "1.parquet")
    table = sink(folder, metadata_columns="__op,__partition,__offset").open("t", ("id",))
    assert list(table.columns) == ["id", "name", "s", "added"]
    rows = [
        row for batch in table.rows(["id", "s", "added"]) for row in zip(batch["id"], batch["s"], batch["added"], strict=True)
    ]
    assert sorted(rows, key=lambda row: row[0]) == [
        (1, {"a": 1, "b": None}, None),
        (3, {"a": 1, "b": None}, None),
        (4, {"a": 1, "b": None}, None),
        (7, {"a": 1, "b": "x"}, 5),
    ]


def test_files_whose_columns_do_not_fit_together_are_named(folder: Path) -> None:
    parquet.write_table(pa.table({**EVENTS, "name": [[1]] * 6}), folder / "t" / "other.parquet")
    with pytest.raises(ConnectError, match=r"the files of the Parquet table at .*t do not have the same columns: .*name"):
        sink(folder, metadata_columns="__op,__partition,__offset").open("t", ("id",))


def test_maps_are_read_as_dicts() -> None:
    type_ = pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.map_(pa.int64(), pa.string())))]))
    column = pa.array([[{"m": []}, {"m": [("a", [(1, "x")])]}], None], type_)
    assert python_values(column) == [[{"m": {}}, {"m": {"a": {1: "x"}}}], None]


@pytest.mark.parametrize(
    ("type_", "expected"), [(pa.date32(), 3_000_000), (pa.timestamp("us", "UTC"), 3 * 10**17), (pa.time64("us"), 3)]
)
def test_dates_and_times_in_arrays_are_numbers_like_others(type_: pa.DataType, expected: int) -> None:
    numbers = pa.array([expected, None], pa.int32() if type_ == pa.date32() else pa.int64()).cast(type_)
    lists = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), numbers)
    assert python_values(numbers) == [expected, None]
    assert python_values(lists) == [[expected, None]]
    assert python_values(pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), lists)) == [[[expected, None]]]


def test_table_of_events_without_their_places_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"table t keeps every event, .* add them to metadata.columns, or verify an upsert"):
        sink(folder, metadata_columns="__op").open("t", ("id",))


def test_catalogs_table_that_pyiceberg_does_not_know_is_refused_by_verify(tmp_path: Path) -> None:
    uri, prefix = f"sqlite:///{tmp_path}/c.db", "spark.conf.spark.sql.catalog.lake"
    catalog = load_catalog("lake", type="sql", uri=uri, warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("shop")
    created = catalog.create_table("shop.documents", pa.schema([("id", pa.int64()), ("doc", pa.string())]))
    metadata = Path(created.metadata_location.removeprefix("file://"))
    metadata.write_text(metadata.read_text().replace('"type":"string"', '"type":"variant"'))
    config = {
        "topics": "t",
        "table.format": "iceberg",
        "table.catalog": "lake.shop",
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "jdbc",
        f"{prefix}.uri": f"jdbc:{uri.replace('///', '')}",
        f"{prefix}.warehouse": f"file://{tmp_path}/warehouse",
    }
    with pytest.raises(ConfigError, match="the Iceberg table documents, which may have a VARIANT column: verify a Delta"):
        open_iceberg_table(parse_config(config), "documents")
