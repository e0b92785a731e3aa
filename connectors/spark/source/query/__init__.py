"""Reads the rows of a SQL query that Spark runs, range by range of a column that only grows."""
