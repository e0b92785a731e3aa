"""The names of this package's plugins."""

from connect.plugins import Kind, PluginEntry

PLUGINS = (
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.jdbc:JdbcSource",
        ("io.confluent.connect.jdbc.JdbcSourceConnector",),
        ("JdbcSource", "JdbcSourceConnector"),
        "source",
        extra="jdbc",
    ),
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.jdbc:AivenJdbcSource",
        ("io.aiven.connect.jdbc.JdbcSourceConnector",),
        ("AivenJdbcSource",),
        "source",
        extra="jdbc",
    ),
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.jdbc:JdbcSink",
        ("io.confluent.connect.jdbc.JdbcSinkConnector",),
        ("JdbcSink", "JdbcSinkConnector"),
        "sink",
        extra="jdbc",
    ),
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.jdbc:AivenJdbcSink",
        ("io.aiven.connect.jdbc.JdbcSinkConnector",),
        ("AivenJdbcSink",),
        "sink",
        extra="jdbc",
    ),
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.jdbc:DebeziumJdbcSink",
        ("io.debezium.connector.jdbc.JdbcSinkConnector",),
        ("DebeziumJdbcSink",),
        "sink",
        extra="jdbc",
    ),
)
