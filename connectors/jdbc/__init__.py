"""JDBC source and sink for every database that SQLAlchemy supports, and Debezium's JDBC sink."""

from connectors.jdbc.debezium_sink import DebeziumJdbcSink
from connectors.jdbc.sink.connector import AivenJdbcSink, JdbcSink
from connectors.jdbc.source.connector import AivenJdbcSource, JdbcSource

__all__ = ["AivenJdbcSink", "AivenJdbcSource", "DebeziumJdbcSink", "JdbcSink", "JdbcSource"]
