"""Plans which rows and columns a batch of changes writes. Pure functions."""
