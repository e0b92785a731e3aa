"""Plain functions as plugins."""
