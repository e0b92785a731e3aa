"""Debezium's transformations."""
