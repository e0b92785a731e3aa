"""Apache Spark: writes change events and plain records into lake tables."""

from connectors.spark.connector import SparkSink
from connectors.spark.iceberg_sink.connector import IcebergSink

__all__ = ["IcebergSink", "SparkSink"]
