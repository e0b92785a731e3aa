"""Signals of MySQL and MariaDB."""
