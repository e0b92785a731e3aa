"""The outbox pattern: rows of one table become messages of many topics."""
