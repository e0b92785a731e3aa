"""Runs records through a connector's converters and transformations offline, for ``sluice preview`` and config tests."""
