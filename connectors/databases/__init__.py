"""What several connectors know about a database: its text forms, arrays, and dates."""
