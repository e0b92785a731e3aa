"""PostgreSQL change data capture: snapshot and logical replication, in Debezium's format."""

from connectors.postgres.connector import PostgresSource
from connectors.postgres.task import PostgresSourceTask

__all__ = ["PostgresSource", "PostgresSourceTask"]
