"""What the Spark sink is measured against: plain Structured Streaming from a topic of changes into a Delta table, one batch.

``python -m benchmarks.structured_streaming BOOTSTRAP TOPIC DIRECTORY JARS MEMORY [schemas]``; runs until it is ended.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.lake_events import COLUMNS

_TYPES = {"int64": "bigint", "string": "string", "double": "double", "boolean": "boolean"}
_ROW = "struct<" + ",".join(f"{name}:{_TYPES[kind]}" for name, kind in COLUMNS.items()) + ">"
ENVELOPE = f"before {_ROW}, after {_ROW}, source struct<ts_ms:bigint>, op string"


def start_spark(jars: str, memory: str) -> SparkSession:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.extraClassPath", ":".join(map(str, sorted(Path(jars).glob("*.jar")))))
        .config("spark.driver.memory", memory)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def read_events(spark: SparkSession, bootstrap: str, topic: str, *, schemas: bool, batch: int | None = None) -> DataFrame:
    """The parsed events ``e`` with their topic, partition, and offset; at most ``batch`` records at a time."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    if batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", batch)
    records = reader.option("startingOffsets", "earliest").option("minPartitions", "2").load()
    text = f.col("value").cast("string")
    if not schemas:
        return records.select(f.from_json(text, ENVELOPE).alias("e"), "topic", "partition", "offset")
    fields = ",".join(part.strip().replace(" ", ":", 1) for part in ENVELOPE.split(", "))
    parsed = f.from_json(text, f"payload struct<{fields}>").alias("m")
    return records.select(parsed, "topic", "partition", "offset").select(
        f.col("m.payload").alias("e"), "topic", "partition", "offset"
    )


def main() -> None:
    bootstrap, topic, directory, jars, memory, *flags = sys.argv[1:]
    events = read_events(start_spark(jars, memory), bootstrap, topic, schemas="schemas" in flags)
    rows = events.select(f.coalesce("e.after", "e.before").alias("r"), "e.op", "e.source.ts_ms", "topic", "partition", "offset")
    query = (
        rows.select("r.*", "op", "ts_ms", "topic", "partition", "offset")
        .writeStream.format("delta")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{directory}/table")
    )
    query.awaitTermination()
    signal.pause()


if __name__ == "__main__":
    main()
