"""Debezium's JDBC sink: change events, as they come from Debezium or with transformations behind it, into tables."""

from connectors.jdbc.debezium_sink.connector import DebeziumJdbcSink

__all__ = ["DebeziumJdbcSink"]
