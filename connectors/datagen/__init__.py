"""Made-up records: users, orders, a clickstream. For demos, tests and load."""

from connectors.datagen.source import DatagenSource, DatagenSourceTask

__all__ = ["DatagenSource", "DatagenSourceTask"]
