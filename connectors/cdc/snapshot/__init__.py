"""Snapshots: their progress."""
