"""Triggers and the change table: what the connector creates in the database, checks, and removes."""
