"""JSON Schema: schemas both ways, and the JSON of values."""
