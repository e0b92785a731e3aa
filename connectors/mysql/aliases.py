"""Aliases of the connectors in this package."""

from connect.plugins import Kind, PluginEntry

PLUGINS = (
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.mysql:MySqlSource",
        ("io.debezium.connector.mysql.MySqlConnector",),
        ("MySqlSource",),
        "source",
        extra="mysql",
    ),
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.mysql:MariaDbSource",
        ("io.debezium.connector.mariadb.MariaDbConnector",),
        ("MariaDbSource",),
        "source",
        extra="mysql",
    ),
)
