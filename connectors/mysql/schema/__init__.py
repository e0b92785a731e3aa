"""Tables of the database: their model, DDL, the checks against TABLE_MAP, and the schema history."""
