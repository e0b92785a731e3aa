"""The feed of Iceberg tables."""
