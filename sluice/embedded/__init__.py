"""Embedded services for first runs and tests, not for production: Java, JARs, an Apache Kafka broker, a PostgreSQL server.

Submodules are imported where they are used, so that ``sluice --help`` stays fast.
"""
