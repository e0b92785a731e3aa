"""What the writer of a table refuses before it plans a commit."""

from __future__ import annotations

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
