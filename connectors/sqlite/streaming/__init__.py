"""The stream: rows of the change table as change events."""
