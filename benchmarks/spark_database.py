"""A Spark application of the benchmark ``lake_nokafka``: reads a database and writes a Delta table.

``python -m benchmarks.spark_database sluice|stream|tables|jdbc DIRECTORY JARS MEMORY OPTIONS``; OPTIONS is JSON, with the columns
of ``sluice`` and ``stream``. A stream, and that of ``tables`` (SpoolTables), runs until it is ended.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.structured_streaming import start_spark
from connectors.spark.datasource import SpoolTables, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_SINK = {"write.mode": "append", "metadata.columns": "__op,__source_ts"}


def started_file(directory: Path) -> Path:
    """The file that exists once Spark has started."""
    return directory.with_name(f"{directory.name}.started")


def _run(spark: SparkSession, writer: DataStreamWriter, directory: str) -> None:
    """Runs a stream until this process is to end."""
    writer.option("checkpointLocation", f"{directory}-checkpoint").start()
    signal.sigwait({signal.SIGTERM})
    for query in spark.streams.active:
        query.stop()


def main() -> None:
    kind, directory, jars, memory, text = sys.argv[1:]
    options = json.loads(text)
    spark = start_spark(jars, memory)
    register(spark)
    started_file(Path(directory)).touch()
    columns = options.pop("columns", None)
    if kind == "stream":
        changes = spark.readStream.format("sluice").schema(columns).options(**options).load()
        _run(spark, changes.writeStream.format("delta").option("path", directory), directory)
    elif kind == "tables":
        sink = {"table.location": str(Path(directory).parent), "table.name.format": Path(directory).name, **_SINK}
        with SpoolTables(spark, options, sink) as tables:
            _run(spark, tables.stream().writeStream.foreachBatch(tables.write), directory)
    else:
        reader = spark.read.format(kind) if columns is None else spark.read.format(kind).schema(columns)
        reader.options(**options).load().write.format("delta").save(directory)
    spark.stop()


if __name__ == "__main__":
    main()
