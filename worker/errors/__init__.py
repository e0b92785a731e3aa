"""What becomes of records that fail: retried, reported, skipped, as a connector's ``errors.*`` say (KIP-298, KIP-610)."""
