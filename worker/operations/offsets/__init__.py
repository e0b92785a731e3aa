"""Stored offsets of connectors: reading, changing, and resetting them (KIP-875)."""
