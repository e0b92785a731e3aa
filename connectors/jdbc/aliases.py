"""The names of this package's plugins."""

from connect.plugins import Kind, PluginEntry

PLUGINS = (
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.jdbc:JdbcSource",
        ("io.confluent.connect.jdbc.JdbcSourceConnector",),
        ("JdbcSource", "JdbcSourceConnector"),
        "source",
    ),
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.jdbc:AivenJdbcSource",
        ("io.aiven.connect.jdbc.JdbcSourceConnector",),
        ("AivenJdbcSource",),
        "source",
    ),
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.jdbc:JdbcSink",
        ("io.confluent.connect.jdbc.JdbcSinkConnector",),
        ("JdbcSink", "JdbcSinkConnector"),
        "sink",
    ),
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.jdbc:AivenJdbcSink",
        ("io.aiven.connect.jdbc.JdbcSinkConnector",),
        ("AivenJdbcSink",),
        "sink",
    ),
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.jdbc:DebeziumJdbcSink",
        ("io.debezium.connector.jdbc.JdbcSinkConnector",),
        ("DebeziumJdbcSink",),
        "sink",
    ),
)
