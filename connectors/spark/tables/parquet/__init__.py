"""Parquet tables: directories of files whose names and footers are the table's state."""
