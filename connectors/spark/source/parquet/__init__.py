"""Reads directories of Parquet files, and the sink's Parquet tables, without Spark."""
