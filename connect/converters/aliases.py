"""The converters of this package by name."""

from connect.plugins import Kind, PluginEntry

_JSON = ("org.apache.kafka.connect.json.JsonConverter",)
_STRING = ("org.apache.kafka.connect.storage.StringConverter",)
_BYTES = ("org.apache.kafka.connect.converters.ByteArrayConverter",)

PLUGINS = (
    PluginEntry(Kind.CONVERTER, "connect.converters.json:JsonConverter", _JSON, ("Json",)),
    PluginEntry(Kind.CONVERTER, "connect.converters.string:StringConverter", _STRING, ("String",)),
    PluginEntry(Kind.CONVERTER, "connect.converters.byte_array:ByteArrayConverter", _BYTES, ("ByteArray",)),
    PluginEntry(Kind.HEADER_CONVERTER, "connect.converters.json:JsonConverter", _JSON, ("Json",)),
    PluginEntry(Kind.HEADER_CONVERTER, "connect.converters.string:StringConverter", _STRING, ("String",)),
    PluginEntry(Kind.HEADER_CONVERTER, "connect.converters.byte_array:ByteArrayConverter", _BYTES, ("ByteArray",)),
    PluginEntry(
        Kind.HEADER_CONVERTER,
        "connect.converters.simple_header:SimpleHeaderConverter",
        ("org.apache.kafka.connect.storage.SimpleHeaderConverter",),
        ("Simple",),
    ),
)
