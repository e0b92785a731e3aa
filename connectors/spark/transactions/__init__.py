"""Rounds of table commits at the boundaries of source transactions (``commit.scope=transaction``)."""
