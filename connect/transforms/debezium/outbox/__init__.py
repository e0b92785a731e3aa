"""The outbox pattern: routes the rows of one table to many topics."""
