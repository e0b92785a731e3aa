"""Change data capture from MySQL and MariaDB. So far, only the codec of the binary log: see ``connectors.mysql.binlog``."""
