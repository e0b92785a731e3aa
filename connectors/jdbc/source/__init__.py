"""JDBC source: reads tables and queries into topics."""
