"""Debezium's transformations, by name.

Their simple class names are short names too, all but ``Filter``: that one means Apache's.
"""

from connect.plugins import Kind, PluginEntry

_JAVA = "io.debezium.transforms"
_OF_THE_SINK = "io.debezium.connector.jdbc.transforms"
_HERE = "connect.transforms.debezium"

PLUGINS: tuple[PluginEntry, ...] = tuple(
    PluginEntry(Kind.TRANSFORMATION, f"{_HERE}.{module}:{name}", tuple(f"{_JAVA}.{java}" for java in java_names), aliases)
    for module, name, java_names, aliases in (
        ("extract_new_record_state", "ExtractNewRecordState", ("ExtractNewRecordState", "UnwrapFromEnvelope"), ()),
        ("extract_changed_record_state", "ExtractChangedRecordState", ("ExtractChangedRecordState",), ()),
        ("outbox.event_router", "EventRouter", ("outbox.EventRouter",), ()),
        ("logical_topic_router", "ByLogicalTableRouter", ("ByLogicalTableRouter",), ()),
        ("logical_topic_router", "ToLogicalTopicRouter", ("ToLogicalTopicRouter",), ()),
        ("header_to_value", "HeaderToValue", ("HeaderToValue",), ()),
        ("timezone_converter", "TimezoneConverter", ("TimezoneConverter",), ()),
        ("scripted", "ExpressionFilter", ("Filter",), ()),
        ("scripted", "ContentBasedRouter", ("ContentBasedRouter",), ()),
    )
) + tuple(
    PluginEntry(Kind.TRANSFORMATION, f"{_HERE}.naming:{name}", (f"{_OF_THE_SINK}.{name}",), ())
    for name in ("CollectionNameTransformation", "FieldNameTransformation")
)
