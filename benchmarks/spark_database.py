"""A Spark application of the benchmark ``lake_nokafka``: reads a database and writes a Delta table.

``python -m benchmarks.spark_database sluice|stream|jdbc DIRECTORY JARS MEMORY OPTIONS``; OPTIONS is JSON, with the columns of
``sluice`` and ``stream``. A stream runs until it is ended.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from benchmarks.structured_streaming import start_spark
from connectors.spark.datasource import register


def started_file(directory: Path) -> Path:
    """The file that exists once Spark has started."""
    return directory.with_name(f"{directory.name}.started")


def main() -> None:
    kind, directory, jars, memory, text = sys.argv[1:]
    options = json.loads(text)
    spark = start_spark(jars, memory)
    register(spark)
    started_file(Path(directory)).touch()
    columns = options.pop("columns", None)
    if kind == "stream":
        changes = spark.readStream.format("sluice").schema(columns).options(**options).load()
        changes.writeStream.format("delta").option("checkpointLocation", f"{directory}-checkpoint").start(directory)
        signal.sigwait({signal.SIGTERM})
        for query in spark.streams.active:
            query.stop()
    else:
        reader = spark.read.format(kind) if columns is None else spark.read.format(kind).schema(columns)
        reader.options(**options).load().write.format("delta").save(directory)
    spark.stop()


if __name__ == "__main__":
    main()
