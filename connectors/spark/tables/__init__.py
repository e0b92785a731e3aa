"""Writes rows to tables and commits them with their offsets."""
