"""Structures of tables, and decoders of their rows."""
