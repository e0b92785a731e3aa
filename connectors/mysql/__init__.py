"""Change data capture from MySQL and MariaDB: snapshot and binary log, in Debezium's format."""

from connectors.mysql.connector import MariaDbSource, MySqlSource
from connectors.mysql.task import MariaDbSourceTask, MySqlSourceTask

__all__ = ["MariaDbSource", "MariaDbSourceTask", "MySqlSource", "MySqlSourceTask"]
