"""Reads the sink's tables for ``sluice verify``, without Spark."""
