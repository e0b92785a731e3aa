"""The config providers of this package."""
