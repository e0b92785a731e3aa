"""Opens a session, and creates a table and appends to it. Run by the benchmark ``spark_start`` in a process of its own.

Arguments: a folder, and the folder of Spark's JARs. Creates the file ``first`` in the folder when there is a session, and
``second`` after the append; then waits for the end of its input.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa

from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.tables.open_table import open_table
from connectors.spark.tables.staging import Staging
from connectors.spark.tables.table import OffsetCommit


def main(folder: str, jars: str) -> None:
    work = Path(folder)
    config = parse_config({"name": "benchmark", "table.location": folder, "spark.master": "local[2]", "spark.jars": jars})
    lease = session.lease(config.spark)
    lease.session()
    (work / "first").touch()
    partition = TopicPartition("t", 0)
    staging = Staging(config.location, config.connector)
    table = open_table(config, "table", lease, staging, lambda topic: TopicIdentity("cluster", topic))
    table.load([partition])
    table.create({"id": pa.int64()}, ())
    table.load([partition])
    if table.append(pa.table({"id": [1]}), OffsetCommit({partition: (0, 1)}, {partition: 1})) is None:
        raise SystemExit("the append to a new table had no effect")
    (work / "second").touch()
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
