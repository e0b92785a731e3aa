"""The plugins of this package by name."""

from connect.plugins import Kind, PluginEntry

PLUGINS = (
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.datagen:DatagenSource",
        ("io.confluent.kafka.connect.datagen.DatagenConnector",),
        ("Datagen", "DatagenSource"),
        "source",
    ),
)
