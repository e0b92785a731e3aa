"""Generates sample records (quickstarts such as users and orders, or an annotated Avro schema) for demos, tests, and load."""

from connectors.datagen.source import DatagenSource, DatagenSourceTask

__all__ = ["DatagenSource", "DatagenSourceTask"]
