"""Which rows of a table count, in a Parquet table of all events."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyiceberg.catalog import load_catalog

from connect.errors import ConfigError
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


def test_maps_are_read_as_dicts() -> None:
    type_ = pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.map_(pa.int64(), pa.string())))]))
    column = pa.array([[{"m": []}, {"m": [("a", [(1, "x")])]}], None], type_)
    assert python_values(column) == [[{"m": {}}, {"m": {"a": {1: "x"}}}], None]


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
