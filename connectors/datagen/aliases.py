"""Aliases of the connectors in this package."""

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
