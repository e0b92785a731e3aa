"""Captured tables: catalog, filters, record schemas, and row decoders."""
