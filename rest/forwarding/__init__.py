"""Requests between workers: forwarding to the leader and signed internal calls."""
