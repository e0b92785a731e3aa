"""Transformations of the Iceberg sink for Kafka Connect."""
