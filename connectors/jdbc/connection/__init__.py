"""Database connections: opening, timeouts, and canceling statements."""
