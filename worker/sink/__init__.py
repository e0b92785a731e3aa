"""Sink tasks: consume, convert, put, and commit."""
