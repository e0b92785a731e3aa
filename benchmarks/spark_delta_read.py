"""What the Spark source is measured against: a plain Spark batch that reads all columns of a Delta table, and writes nothing.

``python -m benchmarks.spark_delta_read DIRECTORY JARS MEMORY``; prints ``<n> rows read`` and runs until it is ended.
"""

from __future__ import annotations

import signal
import sys

from pyspark.sql import functions as f

from benchmarks.structured_streaming import start_spark


def main() -> None:
    directory, jars, memory = sys.argv[1:]
    frame = start_spark(jars, memory).read.format("delta").load(directory)
    columns = [f.sum(f.hash(f.col(name))).alias(name) for name in frame.columns]
    (totals,) = frame.select(f.count("*").alias("rows"), *columns).collect()
    print(totals["rows"], "rows read", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
