"""What the Spark sink's upserts are measured against: Structured Streaming with a MERGE for each micro-batch (foreachBatch).

``python -m benchmarks.structured_streaming_merge BOOTSTRAP TOPIC TABLE CHECKPOINT BATCH JARS MEMORY [schemas]``; merges at most
BATCH changes at a time into the Delta table at TABLE and runs until it is ended.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.window import Window

from benchmarks.lake_events import COLUMNS
from benchmarks.structured_streaming import read_events, start_spark


def main() -> None:
    bootstrap, topic, table, checkpoint, batch, jars, memory, *flags = sys.argv[1:]
    spark = start_spark(jars, memory)
    target = f"delta.`{table}`"
    assignments = ", ".join(f"t.{name} = s.{name}" for name in COLUMNS)
    names, values = ", ".join(COLUMNS), ", ".join(f"s.{name}" for name in COLUMNS)

    def merge(changes: DataFrame, _: int) -> None:
        newest = Window.partitionBy("id").orderBy(f.col("offset").desc())
        latest = changes.withColumn("place", f.row_number().over(newest)).where("place = 1").drop("place")
        latest.createOrReplaceTempView("changes")
        # Of the batch's session, which has the view.
        changes.sparkSession.sql(
            f"MERGE INTO {target} t USING changes s ON t.id = s.id WHEN MATCHED AND s.op = 'd' THEN DELETE"
            f" WHEN MATCHED THEN UPDATE SET {assignments}"
            f" WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({names}) VALUES ({values})"
        )

    events = read_events(spark, bootstrap, topic, schemas="schemas" in flags, batch=int(batch))
    rows = events.select(f.coalesce("e.after", "e.before").alias("r"), "e.op", "offset").select("r.*", "op", "offset")
    rows.writeStream.foreachBatch(merge).option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main()
