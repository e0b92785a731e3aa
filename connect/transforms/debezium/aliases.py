"""Debezium's transformations, by name."""

from connect.plugins import PluginEntry

PLUGINS: tuple[PluginEntry, ...] = ()
