"""Iceberg tables: reads their metadata, writes their files, and commits through Iceberg's own library in Spark's JVM."""
