"""Keys that several connectors have, and their typed values."""
