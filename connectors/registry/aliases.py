"""The converters that keep their schemas in a schema registry, by name."""

from connect.plugins import PluginEntry

PLUGINS: tuple[PluginEntry, ...] = ()
