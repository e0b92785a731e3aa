"""The plugins of this package by name."""

from connect.plugins import Kind, PluginEntry

PLUGINS = (
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.postgres:PostgresSource",
        ("io.debezium.connector.postgresql.PostgresConnector",),
        ("PostgresSource",),
        "source",
    ),
)
