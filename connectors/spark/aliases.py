"""Aliases of the connectors in this package."""

from connect.plugins import Kind, PluginEntry

PLUGINS = (
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.spark:SparkSink",
        (),
        ("SparkSink",),
        "sink",
        extra="spark",
    ),
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.spark:SparkSource",
        (),
        ("SparkSource",),
        "source",
        extra="spark",
    ),
    PluginEntry(
        Kind.CONNECTOR,
        "connectors.spark:IcebergSink",
        ("org.apache.iceberg.connect.IcebergSinkConnector", "io.tabular.iceberg.connect.IcebergSinkConnector"),
        ("IcebergSink", "IcebergSinkConnector"),
        "sink",
        extra="spark",
    ),
)
