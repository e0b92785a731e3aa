"""The peer of ``lake_iceberg``: a Spark program that appends Parquet files to a new Iceberg table."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main(source: str, warehouse: str, memory: str, *folders: str) -> None:
    jars = [str(jar) for folder in folders for jar in sorted(Path(folder).glob("*.jar"))]
    catalog = "spark.sql.catalog.lake"
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", memory)
    settings = {
        "spark.driver.extraClassPath": ":".join(jars),
        "spark.ui.enabled": "false",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": warehouse,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.read.parquet(source).writeTo("lake.db.changes").create()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
