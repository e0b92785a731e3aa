"""Debezium JDBC sink: writes change events and plain rows to tables."""

from connectors.jdbc.debezium_sink.connector import DebeziumJdbcSink

__all__ = ["DebeziumJdbcSink"]
