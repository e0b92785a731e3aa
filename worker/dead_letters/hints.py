"""Suggests what to change for the cause of dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

_JSON, _AVRO = "JsonConverter", "AvroConverter"
_REGISTRY_MAGIC = 0
_ENOUGH_FOR_SCHEMA_ID = 5


class CauseFacts(Protocol):
    """What a hint depends on."""

    @property
    def class_name(self) -> str | None: ...
    @property
    def transform(self) -> str | None: ...
    @property
    def exception_class(self) -> str | None: ...
    @property
    def field(self) -> str | None: ...
    @property
    def message(self) -> str | None: ...


def hint_for(stage: str | None, cause: CauseFacts, value: bytes | None, config: Mapping[str, str | None]) -> str | None:
    """Returns a suggestion, or None. ``value`` is that of an example."""
    message = (cause.message or "").lower()
    match stage:
        case None:
            return (
                "The headers say nothing about the error; set errors.deadletterqueue.context.headers.enable=true for later dead "
                "letters"
            )
        case "KEY_CONVERTER" | "VALUE_CONVERTER":
            return _converter_hint(stage.lower().replace("_", "."), cause.class_name or "", message, value, config)
        case "TRANSFORMATION":
            return _transformation_hint(cause, message)
        case "KAFKA_PRODUCE":
            if (
                "too large" in message
                or "max.request.size" in message
                or "recordtoolarge" in (cause.exception_class or "").lower()
            ):
                return "Raise producer.override.max.request.size, and max.message.bytes of the topic"
            return "The broker or the client rejected the record; the message says why"
        case "TASK_PUT":
            target = f"{cause.field} in the target" if cause.field else "the target"
            return f"Converters and transformations passed; the system behind the sink rejected the record: check {target}"
    return None


def _converter_hint(role: str, class_name: str, message: str, value: bytes | None, config: Mapping[str, str | None]) -> str:
    is_framed = role == "value.converter" and len(value or b"") > _ENOUGH_FOR_SCHEMA_ID and (value or b"")[0] == _REGISTRY_MAGIC
    if class_name.endswith(_JSON):
        if "schemas.enable" in message or '"schema" and "payload"' in message:
            return f"The records have no schema in them: set {role}=JsonConverter and {role}.schemas.enable=false"
        if is_framed:
            return (
                f"The values look like those of a schema registry: set {role} to AvroConverter, JsonSchemaConverter, or "
                "ProtobufConverter"
            )
        return f"The records are not JSON: correct their producer, or set {role} to the converter of their format"
    if "magic byte" in message:
        return f"The records were not written with a schema registry: set {role} to JsonConverter or StringConverter"
    if "subject" in message or ("schema" in message and "not found" in message):
        return f"The schema registry does not have the schema of these records: check {role}.schema.registry.url"
    return f"Check {role} and its settings against the format that the producer of the topic writes"


def _transformation_hint(cause: CauseFacts, message: str) -> str:
    name = f"transforms.{cause.transform}" if cause.transform else f"the transformation {cause.class_name}"
    if "only struct objects supported" in message or "only map objects supported" in message:
        return (
            f"{name} needs a record with fields: set value.converter to one that reads structures, or give the transformation a "
            "predicate that skips other records (tombstones: RecordIsTombstone)"
        )
    if cause.field:
        return f"Field {cause.field} has a value that {name} cannot handle: change its settings, or give it a predicate"
    return f"Change the settings of {name}, or give it a predicate that skips such records"
