"""Aliases of the connectors in this package."""

from connect.plugins import Kind, PluginEntry

_JAVA = "org.apache.kafka.connect.tools."

PLUGINS = tuple(
    PluginEntry(
        Kind.CONNECTOR,
        f"connectors.verifiable:{name}",
        (f"{_JAVA}{name}Connector",),
        (name,),
        type_name,
        (f"connectors.tools:{name}",),
    )
    for name, type_name in (
        ("MockSink", "sink"),
        ("MockSource", "source"),
        ("SchemaSource", "source"),
        ("VerifiableSink", "sink"),
        ("VerifiableSource", "source"),
    )
)
