"""Apache Spark: writes change events and plain records into lake tables."""

from connectors.spark.connector import SparkSink

__all__ = ["SparkSink"]
