"""Incremental snapshots of MySQL and MariaDB."""
