"""What the Spark sink is measured against: plain Structured Streaming from a topic of changes into a Delta table, one batch.

``python -m benchmarks.structured_streaming BOOTSTRAP TOPIC DIRECTORY JARS MEMORY``; runs until it is ended.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

ROW = "id bigint, first_name string, last_name string, email string, balance string, score double, active boolean, notes string"
ENVELOPE = (
    f"before struct<{ROW.replace(' ', ':').replace(',:', ',')}>, after struct<{ROW.replace(' ', ':').replace(',:', ',')}>, "
)
ENVELOPE += "source struct<ts_ms:bigint>, op string"


def main() -> None:
    bootstrap, topic, directory, jars, memory = sys.argv[1:]
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
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("minPartitions", "2")
        .load()
    )
    event = f.from_json(f.col("value").cast("string"), ENVELOPE).alias("e")
    rows = records.select(event, "topic", "partition", "offset").select(
        f.coalesce("e.after", "e.before").alias("r"), "e.op", "e.source.ts_ms", "topic", "partition", "offset"
    )
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
