"""Aliases of the connectors in this package."""

from connect.plugins import Kind, PluginEntry

PLUGINS = (
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.postgres:PostgresSource",
        ("io.debezium.connector.postgresql.PostgresConnector",),
        ("PostgresSource",),
        "source",
        extra="postgres",
    ),
)
