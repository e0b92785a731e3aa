"""The Spark sink with the configuration of the Iceberg sink for Kafka Connect."""
