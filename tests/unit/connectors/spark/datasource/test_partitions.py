"""A batch of the data source is divided among Spark's tasks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.sql.types import StructType

from connectors.spark.datasource.options import parse_options
from connectors.spark.datasource.source import SpoolPartition, SpoolStreamReader

GIVEN = {
    "connector.class": "Postgres",
    "spool.location": "/spools/a",
    "table": "orders",
    "unavailable.value.placeholder": "nothing",
}


def test_table_stays_the_same_topic_for_the_whole_query() -> None:
    stream = SpoolStreamReader(GIVEN, StructType(), False)
    found: list[Any] = []
    for topics in ([], ["shop.orders"], ["shop.orders", "orders"]):
        reader: Any = SimpleNamespace(
            directory=Path("/spools/a"), id="s", topics=lambda names=topics: {name: [] for name in names}
        )
        found += stream._partitions(parse_options(GIVEN), reader, [])
    assert [part.topic for part in found] == ["orders", "shop.orders", "shop.orders"]
    assert all(isinstance(part, SpoolPartition) and part.unavailable == "nothing" for part in found)
