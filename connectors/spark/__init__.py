"""Apache Spark: change events and plain records into lake tables."""

from connectors.spark.sink import SparkSink

__all__ = ["SparkSink"]
