"""Aliases of the converters for a schema registry."""

from connect.plugins import Kind, PluginEntry

PLUGINS = (
    PluginEntry(
        Kind.CONVERTER,
        "connectors.registry.avro.converter:AvroConverter",
        ("io.confluent.connect.avro.AvroConverter",),
        ("Avro",),
        extra="registry",
    ),
    PluginEntry(
        Kind.CONVERTER,
        "connectors.registry.json_schema.converter:JsonSchemaConverter",
        ("io.confluent.connect.json.JsonSchemaConverter",),
        ("JsonSchema",),
        extra="registry",
    ),
    PluginEntry(
        Kind.CONVERTER,
        "connectors.registry.protobuf.converter:ProtobufConverter",
        ("io.confluent.connect.protobuf.ProtobufConverter",),
        ("Protobuf",),
        extra="registry",
    ),
)
