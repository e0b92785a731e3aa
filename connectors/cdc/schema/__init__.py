"""Schemas of captured tables: filters, names, envelopes, masks, and contracts."""
