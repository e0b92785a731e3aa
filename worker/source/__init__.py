"""Source tasks: poll, send, and flush offsets, at least once or exactly once."""
