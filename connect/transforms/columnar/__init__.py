"""Transformations that work on whole batches in columns."""
