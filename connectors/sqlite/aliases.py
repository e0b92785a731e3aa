"""Aliases of the connectors in this package."""

from connect.plugins import Kind, PluginEntry

PLUGINS = (PluginEntry(Kind.CONNECTOR, "connectors.sqlite:SqliteSource", (), ("SqliteSource",), "source"),)
