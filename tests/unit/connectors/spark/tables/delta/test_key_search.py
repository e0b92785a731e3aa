"""Paths of the files in which Spark found rows."""

from __future__ import annotations

import pytest

from connectors.spark.tables.delta.key_search import location_of


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
