"""Sink tasks: consume, decode, put, and commit offsets."""
