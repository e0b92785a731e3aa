"""Aliases of the connectors in this package."""

from connect.plugins import Kind, PluginEntry

PLUGINS = (
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.file:FileStreamSource",
        ("org.apache.kafka.connect.file.FileStreamSourceConnector",),
        ("FileStreamSource",),
        "source",
    ),
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.file:FileStreamSink",
        ("org.apache.kafka.connect.file.FileStreamSinkConnector",),
        ("FileStreamSink",),
        "sink",
    ),
)
