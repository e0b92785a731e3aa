"""Snapshots: key ranges, the order of reading, progress, and what is stored to resume."""
