"""What a stream of changes adds to its events."""
