"""Schemas of captured tables: catalog, filters, record schemas, and row decoders."""
