"""Alias table of the converters."""

from connect.plugin_entry import Kind, PluginEntry

_JSON = ("org.apache.kafka.connect.json.JsonConverter",)
_STRING = ("org.apache.kafka.connect.storage.StringConverter",)
_BYTES = ("org.apache.kafka.connect.converters.ByteArrayConverter",)
_SINGLE = ("Short", "Integer", "Long", "Float", "Double", "Boolean")
"""Short names of the converters of single values."""

PLUGINS = (
    PluginEntry(
        Kind.CONVERTER,
        "connect.converters.json.converter:JsonConverter",
        _JSON,
        ("Json",),
        former_paths=("connect.converters.json:JsonConverter",),
    ),
    PluginEntry(Kind.CONVERTER, "connect.converters.string:StringConverter", _STRING, ("String",)),
    PluginEntry(Kind.CONVERTER, "connect.converters.byte_array:ByteArrayConverter", _BYTES, ("ByteArray",)),
    PluginEntry(
        Kind.HEADER_CONVERTER,
        "connect.converters.json.converter:JsonConverter",
        _JSON,
        ("Json",),
        former_paths=("connect.converters.json:JsonConverter",),
    ),
    PluginEntry(Kind.HEADER_CONVERTER, "connect.converters.string:StringConverter", _STRING, ("String",)),
    PluginEntry(Kind.HEADER_CONVERTER, "connect.converters.byte_array:ByteArrayConverter", _BYTES, ("ByteArray",)),
    PluginEntry(
        Kind.HEADER_CONVERTER,
        "connect.converters.simple_header:SimpleHeaderConverter",
        ("org.apache.kafka.connect.storage.SimpleHeaderConverter",),
        ("Simple",),
    ),
    *(
        PluginEntry(
            kind,
            f"connect.converters.{'boolean' if name == 'Boolean' else 'number'}:{name}Converter",
            (f"org.apache.kafka.connect.converters.{name}Converter",),
            (name,),
        )
        for kind in (Kind.CONVERTER, Kind.HEADER_CONVERTER)
        for name in _SINGLE
    ),
)
