"""Reference pages and JSON Schemas, generated from the ConfigDefs of all components."""
