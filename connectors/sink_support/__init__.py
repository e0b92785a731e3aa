"""Code that sink connectors share: isolating and reporting errant records."""
