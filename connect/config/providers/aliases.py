"""The config providers of this package, by name."""

from connect.plugins import PluginEntry

PLUGINS: tuple[PluginEntry, ...] = ()
