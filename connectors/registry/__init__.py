"""The converters that keep their schemas in a schema registry."""
