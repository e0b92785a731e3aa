"""The snapshot: a consistent read of the captured tables."""
