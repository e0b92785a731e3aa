"""Watches the server while a task runs: slot, WAL, publication, and captured tables."""
