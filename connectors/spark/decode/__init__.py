"""Decoding: Kafka records to Arrow columns."""
