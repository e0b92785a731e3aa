"""What the writer of a table refuses before it plans a commit, and what it plans again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from connect.errors import SchemaError
from connect.record import TopicPartition
from connectors.spark.config import TableConfig
from connectors.spark.tables.writer import TableWriter
from tests.support.lake.calls import Calls
from tests.support.lake.delta import DeltaLake
from tests.support.lake.iceberg import IcebergLake
from tests.support.lake.lakes import Lake
from tests.support.lake.model import Topic


@pytest.mark.parametrize("lake", [DeltaLake, IcebergLake])
def test_a_metadata_column_that_the_table_lacks_is_named(lake: type[Lake]) -> None:
    settings = TableConfig("append", (), "hard", "none", ("__op",), keep_tombstones=False)
    partition = TopicPartition("topic", 0)
    writer = TableWriter("t", settings, lake("append").open(settings, Calls()))
    with pytest.raises(SchemaError, match=r"has no column __op, which the connector writes, and schema\.evolution=none"):
        writer.commit([Topic("c1 c2").batch(partition, 0, 2, 0)], [partition])


def test_a_file_for_other_columns_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows would have the defaults of columns that were added since."""
    partition, topic, lake = TopicPartition("topic", 0), Topic("c1 c2"), IcebergLake("append")
    settings = TableConfig("append", (), "hard", "add", (), keep_tombstones=False)
    writer = TableWriter("t", settings, lake.open(settings, Calls()))
    writer.commit([topic.batch(partition, 0, 1, 0)], [partition])
    commit = lake.commit

    def commit_late(*given: Any, **named: Any) -> Any:
        monkeypatch.undo()
        schema = lake.metadata.schema
        added = {"id": 99, "name": "n", "required": False, "type": "string", "initial-default": "x"}
        changed = {**schema, "schema-id": schema["schema-id"] + 1, "fields": [*schema["fields"], added]}
        lake.metadata = replace(lake.metadata, schema=changed)
        return commit(*given, **named)

    monkeypatch.setattr(lake, "commit", commit_late)
    writer.commit([topic.batch(partition, 1, 2, 1)], [partition])
    assert writer.progress.conflicts == 1
    assert set(writer.columns() or ()) == {"id", "v", "n"}
