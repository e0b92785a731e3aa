"""Data files of a table and their deleted rows, whatever the table's format: reading, finding keys, upserts, merging."""
