"""Which tables Spark may search for keys, and the paths of the files in which it found rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from connect.errors import ConnectError
from connectors.spark.tables.delta.file_format import DeltaFormat
from connectors.spark.tables.delta.key_search import KeySearch, location_of
from connectors.spark.tables.files.live_files import LiveFiles


@pytest.mark.parametrize(
    ("uri", "location"),
    [
        ("file:///lake/t/part-0.parquet", "/lake/t/part-0.parquet"),
        ("file:/lake/a%20b/part-0.parquet", "/lake/a b/part-0.parquet"),
        ("file:///lake/100%25/%2520/p=a%253Ab/x+y.parquet", "/lake/100%/%20/p=a%3Ab/x+y.parquet"),
        ("file:///lake/t%C3%A4/ä.parquet", "/lake/tä/ä.parquet"),
        ("s3a://bucket/lake/a%20b/part-0.parquet", "bucket/lake/a b/part-0.parquet"),
    ],
)
def test_uris_of_spark_become_paths_of_arrow(uri: str, location: str) -> None:
    assert location_of(uri) == location


def test_a_key_in_a_partition_column_that_the_sink_cannot_read_is_refused() -> None:
    live = LiveFiles(fs.LocalFileSystem(), DeltaFormat("/lake/t"))
    partition = {"partitionValues": {"at": "2026-01-02 03:04:05"}, "stats": '{"numRecords": 1}'}
    live.swap(live.prepare([{"path": "a.parquet", "size": 1, **partition}], ()))
    unused: Any = None
    instant = pa.timestamp("us", "UTC")
    rows = pa.table({"at": pa.array([0], instant)})
    with pytest.raises(ConnectError, match="column at is a time in the zone of the session that wrote it"):
        KeySearch(unused, "/lake/t", unused).find(rows, {"at": instant}, 0, live)
