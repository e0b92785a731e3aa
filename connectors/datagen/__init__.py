"""Generates sample records (users, orders, a clickstream) for demos, tests, and load."""

from connectors.datagen.source import DatagenSource, DatagenSourceTask

__all__ = ["DatagenSource", "DatagenSourceTask"]
