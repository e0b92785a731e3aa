"""Tables of the database: their model, the catalog, DDL, and the schema history."""
