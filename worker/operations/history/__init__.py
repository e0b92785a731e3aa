"""Which configurations connectors have had: what can be looked at, and rolled back to."""
