"""Retries, reports, and skips records that fail, as configured by ``errors.*`` (KIP-298, KIP-610)."""
