"""Signals to a running connector, and its notifications."""
