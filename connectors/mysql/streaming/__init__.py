"""Streams changes from the binary log: converts its events to records, and follows the structure of tables."""
