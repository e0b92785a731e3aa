"""Worker and connector configuration: keys, config providers, client overrides, and secrets."""
