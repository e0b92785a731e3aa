"""PostgreSQL change data capture: snapshot and logical replication into topics, in Debezium's form."""

from connectors.postgres.connector import PostgresSource
from connectors.postgres.task import PostgresSourceTask

__all__ = ["PostgresSource", "PostgresSourceTask"]
