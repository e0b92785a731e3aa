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
    *(
        PluginEntry(
            Kind.CUSTOM_CONVERTER,
            f"connectors.mysql.custom_converters:{name}",
            # The second is the name until Debezium 2.7, which later releases still know.
            (f"io.debezium.connector.binlog.converters.{name}", f"io.debezium.connector.mysql.converters.{name}"),
            extra="mysql",
        )
        for name in ("TinyIntOneToBooleanConverter", "JdbcSinkDataTypesConverter")
    ),
)
