"""The transformations and predicates of this package by name, and those of the Iceberg sink.

Apache has no short alias for the variants for key and value (``Cast$Value``); here they have one: ``CastValue``.
"""

from connect.plugins import Kind, PluginEntry
from connect.transforms.iceberg.aliases import PLUGINS as ICEBERG

_PACKAGE = "org.apache.kafka.connect.transforms"
_KEY_OR_VALUE = {
    "Cast": "cast",
    "ExtractField": "extract_field",
    "Flatten": "flatten",
    "HeaderFrom": "header_from",
    "HoistField": "hoist_field",
    "InsertField": "insert_field",
    "MaskField": "mask_field",
    "ReplaceField": "replace_field",
    "SetSchemaMetadata": "set_schema_metadata",
    "TimestampConverter": "timestamp_converter",
}
_PLAIN = {
    "DropHeaders": "header_transforms",
    "Filter": "filter",
    "InsertHeader": "header_transforms",
    "RegexRouter": "regex_router",
    "TimestampRouter": "timestamp_router",
    "ValueToKey": "value_to_key",
}
_PREDICATES = ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")

PLUGINS = (
    *(
        PluginEntry(Kind.TRANSFORMATION, f"connect.transforms.{module}:{name}{variant}", (f"{_PACKAGE}.{name}${variant}",))
        for name, module in _KEY_OR_VALUE.items()
        for variant in ("Key", "Value")
    ),
    *(
        PluginEntry(Kind.TRANSFORMATION, f"connect.transforms.{module}:{name}", (f"{_PACKAGE}.{name}",), (name,))
        for name, module in _PLAIN.items()
    ),
    *(
        PluginEntry(Kind.PREDICATE, f"connect.transforms.predicates:{name}", (f"{_PACKAGE}.predicates.{name}",), (name,))
        for name in _PREDICATES
    ),
    *ICEBERG,
)
