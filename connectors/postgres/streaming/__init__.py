"""Streaming: logical replication, from the server's messages to change events."""
