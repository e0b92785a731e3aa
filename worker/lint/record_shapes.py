"""Finds transformations and sinks that cannot handle the records of their converter or source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from connect.config.finding import Finding
from worker.lint import codes
from worker.lint.context import LintContext
from worker.lint.provider_references import has_reference
from worker.validation.plugin_index import PluginType

_APACHE = "org.apache.kafka.connect.transforms."
_NEED_FIELDS = frozenset({"ExtractField", "Flatten", "HeaderFrom", "InsertField", "MaskField", "ReplaceField", "ValueToKey"})
_NEED_SCHEMA = frozenset({"SetSchemaMetadata"})
_KEEP_SHAPE = frozenset({"DropHeaders", "Filter", "InsertHeader", "RegexRouter", "TimestampRouter"})
_SINGLE_VALUES = frozenset(
    {
        "StringConverter",
        "ByteArrayConverter",
        "BooleanConverter",
        "ShortConverter",
        "IntegerConverter",
        "LongConverter",
        "FloatConverter",
        "DoubleConverter",
    }
)
_LINES = "org.apache.kafka.connect.file.FileStreamSourceConnector"
_SINKS_WITH_SCHEMA = frozenset({"io.confluent.connect.jdbc.JdbcSinkConnector", "io.debezium.connector.jdbc.JdbcSinkConnector"})


@dataclass(slots=True)
class _Shape:
    """What is known about a record's key or value; None means unknown."""

    single: bool | None = None
    """Whether it is a single text, number, or bytes value without fields."""
    schema: bool | None = None
    source: str = ""
    """Why, for messages."""


def check_shapes(context: LintContext) -> Iterator[Finding]:
    """Yields findings about transformations and sinks that need fields or a schema that records do not have."""
    key, value = _shapes_at_start(context)
    if context.kind is PluginType.SINK and value.schema is False and _needs_schema(context):
        message = f"{context.class_name.rpartition('.')[2]} needs values with a schema, but {value.source} provides none"
        yield codes.NEEDS_SCHEMA.finding(message, _responsible_key(context, "value.converter"), _schema_suggestion(value))
    for alias in dict.fromkeys(context.aliases(PluginType.TRANSFORMATION)):
        type_key = f"transforms.{alias}.type"
        found = context.plugin_index.find((context.config.get(type_key) or "").strip(), [PluginType.TRANSFORMATION])
        if found is None or not found.name.startswith(_APACHE):
            return  # it may turn a record into anything
        name, _, side = found.name.removeprefix(_APACHE).partition("$")
        shape = key if side == "Key" else value
        if name in _KEEP_SHAPE:
            continue
        conditional = f"transforms.{alias}.predicate" in context.config
        if not conditional and shape.single and _works_on_fields(context, alias, name):
            message = f"{name} works on fields, but the {'key' if shape is key else 'value'} is a single value: {shape.source}"
            hoist = f"{_APACHE}HoistField${side or 'Value'}"
            yield codes.NEEDS_FIELDS.finding(message, type_key, f"Put {hoist} before it to wrap the value in a field.")
            return
        if not conditional and shape.schema is False and name in _NEED_SCHEMA:
            message = f"{name} needs a schema, but {shape.source} provides none"
            yield codes.NEEDS_SCHEMA.finding(message, type_key, _schema_suggestion(shape))
            return
        if name == "ValueToKey":
            key = _Shape(False, value.schema, "ValueToKey")
        elif name in ("HoistField", "ExtractField"):
            shape.single = False if name == "HoistField" else None


def _works_on_fields(context: LintContext, alias: str, name: str) -> bool:
    if name == "Cast":
        spec = context.config.get(f"transforms.{alias}.spec") or ""
        return ":" in spec and not has_reference(spec)
    if name == "TimestampConverter":
        return bool((context.config.get(f"transforms.{alias}.field") or "").strip())
    return name in _NEED_FIELDS


def _shapes_at_start(context: LintContext) -> tuple[_Shape, _Shape]:
    if context.kind is PluginType.SOURCE:
        found = context.plugin_index.find(context.class_name, [PluginType.SOURCE]) if context.is_known else None
        if found is not None and found.name == _LINES:
            return _Shape(), _Shape(True, True, "the file's lines are text")
        return _Shape(), _Shape()
    return _converted(context, "key.converter"), _converted(context, "value.converter")


def _converted(context: LintContext, role: str) -> _Shape:
    found = context.converter_class(role)
    if found is None:
        return _Shape()
    cls, settings = found
    if cls.__name__ in _SINGLE_VALUES:
        return _Shape(True, True, f"{role} is {cls.__name__}")
    if cls.__name__ == "JsonConverter" and (settings.get("schemas.enable") or "true").strip().lower() == "false":
        return _Shape(None, False, f"{role} is JsonConverter with schemas.enable=false, which")
    return _Shape()


def _needs_schema(context: LintContext) -> bool:
    return getattr(context.connector, "needs_schema", False) or context.class_name in _SINKS_WITH_SCHEMA


def _responsible_key(context: LintContext, role: str) -> str:
    return next((key for key in (f"{role}.schemas.enable", role) if key in context.config), "connector.class")


def _schema_suggestion(shape: _Shape) -> str | None:
    return "Write messages with a schema: JsonConverter with schemas.enable=true, or a schema registry converter."
