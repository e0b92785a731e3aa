"""Which rows of a table count, in a Parquet table of all events."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from connect.errors import ConfigError
from connect.verification import KeyFilter
from connectors.spark.config import parse_config
from connectors.spark.verification.sink import SparkVerification

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


def test_table_of_events_without_their_places_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"table t keeps every event, .* add them to metadata.columns, or verify an upsert"):
        sink(folder, metadata_columns="__op").open("t", ("id",))
