"""Apache Spark: writes change events and plain records into lake tables, and reads lake tables as change events."""

from connectors.spark.connector import SparkSink
from connectors.spark.iceberg_sink.connector import IcebergSink
from connectors.spark.source.connector import SparkSource

__all__ = ["IcebergSink", "SparkSink", "SparkSource"]
