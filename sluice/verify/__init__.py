"""``sluice verify``: compares the tables of a sink with the database that they come from, while both change."""
