"""Logs, logger levels, and what the herder is doing."""
