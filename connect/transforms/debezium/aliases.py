"""Debezium's transformations by name.

Their simple class names are aliases too, except ``Filter``, which means Apache's.
"""

from connect.plugins import Kind, PluginEntry

_JAVA_PACKAGE = "io.debezium.transforms"
_JDBC_SINK_PACKAGE = "io.debezium.connector.jdbc.transforms"
_PYTHON_PACKAGE = "connect.transforms.debezium"

PLUGINS: tuple[PluginEntry, ...] = tuple(
    PluginEntry(
        Kind.TRANSFORMATION,
        f"{_PYTHON_PACKAGE}.{module}:{name}",
        tuple(f"{_JAVA_PACKAGE}.{java}" for java in java_names),
        aliases,
    )
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
    PluginEntry(Kind.TRANSFORMATION, f"{_PYTHON_PACKAGE}.naming:{name}", (f"{_JDBC_SINK_PACKAGE}.{name}",), ())
    for name in ("CollectionNameTransformation", "FieldNameTransformation")
)
