"""Change events: the envelope, its semantic types, and placeholders for unavailable values."""
