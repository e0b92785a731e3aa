"""Plain functions as plugins, by name."""

from connect.plugins import PluginEntry

PLUGINS: tuple[PluginEntry, ...] = ()
