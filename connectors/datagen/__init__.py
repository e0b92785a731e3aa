"""Made-up records by the rules of a quickstart."""
