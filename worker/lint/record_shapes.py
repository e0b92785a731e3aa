"""What a transformation or a sink needs of a record, against what the converter or the source gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from connect.config.finding import Finding
from worker.lint import codes
from worker.lint.provider_references import has_reference
from worker.lint.subject import Subject
from worker.validation.plugin_catalog import Kind

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
    """What is known of a record's key or value. None: nothing."""

    single: bool | None = None
    """It is one text, number or bytes: no fields."""
    schema: bool | None = None
    source: str = ""
    """Where that comes from, for messages."""


def check_shapes(subject: Subject) -> Iterator[Finding]:
    """Findings about transformations and sinks that cannot do with what they get."""
    key, value = _shapes_at_start(subject)
    if subject.kind is Kind.SINK and value.schema is False and _needs_schema(subject):
        message = f"{subject.class_name.rpartition('.')[2]} needs values with a schema, and {value.source} gives none"
        yield codes.NEEDS_SCHEMA.found(message, _blamed(subject, "value.converter"), _cure(value))
    for alias in dict.fromkeys(subject.aliases(Kind.TRANSFORMATION)):
        type_key = f"transforms.{alias}.type"
        found = subject.catalogue.find((subject.config.get(type_key) or "").strip(), [Kind.TRANSFORMATION])
        if found is None or not found.name.startswith(_APACHE):
            return  # it may make anything out of a record
        name, _, side = found.name.removeprefix(_APACHE).partition("$")
        shape = key if side == "Key" else value
        if name in _KEEP_SHAPE:
            continue
        conditional = f"transforms.{alias}.predicate" in subject.config
        if not conditional and shape.single and _works_on_fields(subject, alias, name):
            message = f"{name} works on fields, and the {'key' if shape is key else 'value'} is one value: {shape.source}"
            hoist = f"{_APACHE}HoistField${side or 'Value'}"
            yield codes.NEEDS_FIELDS.found(message, type_key, f"{hoist} before it makes a field of it.")
            return
        if not conditional and shape.schema is False and name in _NEED_SCHEMA:
            message = f"{name} needs a schema, and {shape.source} gives none"
            yield codes.NEEDS_SCHEMA.found(message, type_key, _cure(shape))
            return
        if name == "ValueToKey":
            key = _Shape(False, value.schema, "ValueToKey")
        elif name in ("HoistField", "ExtractField"):
            shape.single = False if name == "HoistField" else None


def _works_on_fields(subject: Subject, alias: str, name: str) -> bool:
    if name == "Cast":
        spec = subject.config.get(f"transforms.{alias}.spec") or ""
        return ":" in spec and not has_reference(spec)
    if name == "TimestampConverter":
        return bool((subject.config.get(f"transforms.{alias}.field") or "").strip())
    return name in _NEED_FIELDS


def _shapes_at_start(subject: Subject) -> tuple[_Shape, _Shape]:
    if subject.kind is Kind.SOURCE:
        found = subject.catalogue.find(subject.class_name, [Kind.SOURCE]) if subject.is_known else None
        if found is not None and found.name == _LINES:
            return _Shape(), _Shape(True, True, "the file's lines are text")
        return _Shape(), _Shape()
    return _converted(subject, "key.converter"), _converted(subject, "value.converter")


def _converted(subject: Subject, role: str) -> _Shape:
    found = subject.converter_class(role)
    if found is None:
        return _Shape()
    cls, settings = found
    if cls.__name__ in _SINGLE_VALUES:
        return _Shape(True, True, f"{role} is {cls.__name__}")
    if cls.__name__ == "JsonConverter" and (settings.get("schemas.enable") or "true").strip().lower() == "false":
        return _Shape(None, False, f"{role} is JsonConverter with schemas.enable=false, which")
    return _Shape()


def _needs_schema(subject: Subject) -> bool:
    return getattr(subject.connector, "needs_schema", False) or subject.class_name in _SINKS_WITH_SCHEMA


def _blamed(subject: Subject, role: str) -> str:
    return next((key for key in (f"{role}.schemas.enable", role) if key in subject.config), "connector.class")


def _cure(shape: _Shape) -> str | None:
    return "Messages must be written with their schema, by JsonConverter with schemas.enable=true or by a registry's converter."
