"""Incremental snapshots: requests, their state in offsets, and notifications."""
