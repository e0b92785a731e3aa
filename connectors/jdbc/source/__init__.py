"""The source: tables and queries into topics."""
