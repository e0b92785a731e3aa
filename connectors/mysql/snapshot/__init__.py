"""The snapshot: the structure of tables, and a consistent read of their rows."""
