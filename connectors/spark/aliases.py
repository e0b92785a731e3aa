"""The plugins of this package by name."""

from connect.plugins import Kind, PluginEntry

PLUGINS = (
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.spark:SparkSink",
        (),
        ("SparkSink",),
        "sink",
    ),
)
