"""Config keys of EventRouter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from connect.config.definition import ConfigDef, Importance, Width
from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.config.validators import one_of
from connect.errors import ConfigError
from connect.strict import is_strict
from connect.transforms.config import JavaRegex
from connect.transforms.debezium.config import warn_deprecated, warn_ignored

_TABLE_GROUP, _ROUTER_GROUP, _TRACING_GROUP = "Table", "Router", "Tracing"
_PLACEMENT, _MISSING = "table.fields.additional.placement", "table.field.additional.missing"
_DEPRECATED_MISSING = "table.fields.additional.error.on.missing"
_TRACING_REASON = "tracing is not supported; the keys are accepted so that configurations stay valid"
_IGNORED_KEYS = {
    "tracing.span.context.field": _TRACING_REASON,
    "tracing.operation.name": _TRACING_REASON,
    "tracing.with.context.field.only": _TRACING_REASON,
    "field.name.adjustment.mode": "names in an expanded payload are not changed",
}
_COLUMN_KEYS = {
    "table.field.event.id": ("id", "Event ID Field", "Column with the ID of the event, which becomes the header id."),
    "table.field.event.key": ("aggregateid", "Event Key Field", "Column that becomes the key of the record."),
    "table.field.event.type": (
        "type", "Event Type Field", "Column with the type of the event, used only if table.fields.additional.placement has it.",
    ),
    "table.field.event.payload": ("payload", "Event Payload Field", "Column that becomes the value of the record."),
}  # fmt: skip


class InvalidOperation(Enum):
    """How to handle an update of the outbox table."""

    WARN = "warn"
    ERROR = "error"
    FATAL = "fatal"


class Placement(Enum):
    """Where to put an additional column."""

    HEADER = "header"
    ENVELOPE = "envelope"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True)
class Addition:
    """An additional column, where to put it, and its name there."""

    column: str
    placement: Placement
    alias: str


@dataclass(frozen=True, slots=True)
class _AdditionsValidator:
    """Validates the list of additional columns."""

    def __call__(self, name: str, value: Any) -> None:
        parse_additions(name, value or [])

    def __str__(self) -> str:
        return "list of column:header, column:envelope, or column:partition, each with an optional :alias"


def parse_additions(key: str, specs: list[str]) -> tuple[Addition, ...]:
    """Parses the list of additional columns. Raises ConfigError."""
    return tuple(_parse_addition(key, spec) for spec in specs)


def _parse_addition(key: str, spec: str) -> Addition:
    parts = [part.strip() for part in spec.rstrip(":").split(":")]
    if len(parts) not in (2, 3) or not all(parts):
        raise ConfigError.invalid(key, spec, "A comma-separated list of valid String pairs or trios is expected")
    known = {placement.value: placement for placement in Placement}
    if parts[1].lower() not in known:
        raise ConfigError.invalid(key, spec, f"unknown placement {parts[1]}; expected {', '.join(known)}")
    return Addition(parts[0], known[parts[1].lower()], parts[-1] if len(parts) == 3 else parts[0])


def _build_config_def() -> ConfigDef:
    table = ConfigDef()
    for name, (default, display_name, doc) in _COLUMN_KEYS.items():
        table.define(
            name, ConfigType.STRING, default, importance=Importance.LOW, width=Width.MEDIUM, group=_TABLE_GROUP,
            display_name=display_name, doc=doc,
        )  # fmt: skip
    return (
        table.define(
            "table.field.event.timestamp", ConfigType.STRING, None, importance=Importance.MEDIUM, width=Width.MEDIUM,
            group=_TABLE_GROUP, display_name="Event Timestamp Field",
            doc="Column that becomes the timestamp of the record, in whole milliseconds. If unset, the time at which the change "
            "was processed.",
        )
        .define(
            _PLACEMENT, ConfigType.LIST, "", validator=_AdditionsValidator(), importance=Importance.HIGH, width=Width.MEDIUM,
            group=_TABLE_GROUP, display_name="Settings for each additional column in the outbox table",
            doc="Additional columns, as column:placement or column:placement:alias. header adds a header; envelope makes the "
            "value a struct of the payload and these columns; partition uses the column as the partition number.",
        )
        .define(
            _MISSING, ConfigType.STRING, "error", validator=one_of("error", "ignore", ignore_case=True),
            importance=Importance.MEDIUM, width=Width.MEDIUM, group=_TABLE_GROUP,
            display_name="Behavior when an additional field is missing in the change data",
            doc="What to do if an event lacks an additional column: error fails, ignore leaves it out.",
        )
        .define(
            "table.field.event.schema.version", ConfigType.STRING, None, importance=Importance.LOW, width=Width.MEDIUM,
            group=_TABLE_GROUP, display_name="Event Schema Version Field",
            doc="Column with the version of the value schema, if columns are placed in the envelope.",
        )
        .define(
            "table.op.invalid.behavior", ConfigType.STRING, "warn", importance=Importance.MEDIUM, width=Width.MEDIUM,
            validator=one_of(*(one.value for one in InvalidOperation), ignore_case=True), group=_TABLE_GROUP,
            display_name="Behavior when capturing an unexpected outbox event",
            doc="How to handle an update of the table, which should have only inserts and deletes: warn and error drop it and "
            "log a message, fatal fails.", aliases=("debezium.op.invalid.behavior",),
        )
        .define(
            "table.expand.json.payload", ConfigType.BOOLEAN, False, importance=Importance.MEDIUM, width=Width.MEDIUM,
            group=_TABLE_GROUP, display_name="Expand Payload escaped string as real JSON",
            doc="Whether to convert a payload that is a JSON object or array as text to structs and lists, with an inferred "
            "schema. Other payloads stay text, and a warning is logged.",
        )
        .define(
            "table.json.payload.null.behavior", ConfigType.STRING, "ignore", importance=Importance.MEDIUM, width=Width.MEDIUM,
            validator=one_of("ignore", "optional_bytes", ignore_case=True), group=_TABLE_GROUP,
            display_name="Behavior when json payload including null value",
            doc="How to handle null in an expanded payload: ignore leaves it out, optional_bytes creates an optional field of "
            "type bytes.",
        )
        .define(
            "table.json.payload.empty.array.behavior", ConfigType.STRING, "ignore", importance=Importance.MEDIUM,
            width=Width.MEDIUM, validator=one_of("ignore", "optional_string", ignore_case=True), group=_TABLE_GROUP,
            display_name="Behavior when json payload including empty array",
            doc="How to handle an empty array in an expanded payload: ignore leaves it out, optional_string creates a list of "
            "strings.",
        )
        .define(
            "route.by.field", ConfigType.STRING, "aggregatetype", importance=Importance.HIGH, width=Width.MEDIUM,
            group=_ROUTER_GROUP, display_name="Field to route events by", doc="Column from which the topic is built.",
        )
        .define(
            "route.topic.regex", ConfigType.STRING, "(?<routedByValue>.*)", validator=JavaRegex(), importance=Importance.LOW,
            width=Width.MEDIUM, group=_ROUTER_GROUP, display_name="Regex for the routed topic",
            doc="Regular expression for the text of that column; route.topic.replacement can use its groups.",
        )
        .define(
            "route.topic.replacement", ConfigType.STRING, "outbox.event.${routedByValue}", importance=Importance.HIGH,
            width=Width.MEDIUM, group=_ROUTER_GROUP, display_name="The name of the routed topic",
            doc="The topic; ${routedByValue} is the text of the column.",
        )
        .define(
            "route.tombstone.on.empty.payload", ConfigType.BOOLEAN, False, importance=Importance.HIGH, width=Width.MEDIUM,
            group=_ROUTER_GROUP, display_name="Empty payloads cause a tombstone message",
            doc="Whether a null or blank payload creates a tombstone.",
        )
        .define(
            "tracing.span.context.field", ConfigType.STRING, "tracingspancontext", importance=Importance.LOW, width=Width.SHORT,
            group=_TRACING_GROUP, display_name="Serialized tracing span context field", doc=f"Ignored: {_TRACING_REASON}.",
        )
        .define(
            "tracing.operation.name", ConfigType.STRING, "debezium-read", importance=Importance.LOW, width=Width.SHORT,
            group=_TRACING_GROUP, display_name="Tracing operation name", doc=f"Ignored: {_TRACING_REASON}.",
        )
        .define(
            "tracing.with.context.field.only", ConfigType.BOOLEAN, False, importance=Importance.LOW, width=Width.SHORT,
            group=_TRACING_GROUP, display_name="Trace only events with context field present", doc=f"Ignored: {_TRACING_REASON}.",
        )
        .define(_DEPRECATED_MISSING, ConfigType.BOOLEAN, None, internal=True, doc=f"Deprecated; see {_MISSING}.")
    )  # fmt: skip


CONFIG_DEF = _build_config_def()


@dataclass(frozen=True, slots=True)
class OutboxColumns:
    """Column names of the outbox table."""

    id: str
    key: str | None
    payload: str
    route_by: str
    timestamp: str | None

    def with_upper_case_defaults(self, given: Mapping[str, Any]) -> OutboxColumns:
        """Converts default names to upper case, as Oracle has them."""
        return OutboxColumns(
            self.id if "table.field.event.id" in given else self.id.upper(),
            self.key if self.key is None or "table.field.event.key" in given else self.key.upper(),
            self.payload if "table.field.event.payload" in given else self.payload.upper(),
            self.route_by if "route.by.field" in given else self.route_by.upper(),
            self.timestamp,
        )


@dataclass(frozen=True, slots=True)
class EventRouterConfig:
    """Typed values of the keys."""

    columns: OutboxColumns
    oracle_columns: OutboxColumns
    schema_version: str | None
    additions: tuple[Addition, ...]
    missing_is_error: bool
    invalid_operation: InvalidOperation
    expands_json: bool
    keeps_nulls: bool
    keeps_empty_arrays: bool
    topic_regex: str
    topic_replacement: str
    tombstone_on_empty: bool
    strict: bool


def read_config(configs: Mapping[str, Any]) -> EventRouterConfig:
    """Parses the keys. Raises ConfigError."""
    values = CONFIG_DEF.parse(configs)
    warn_ignored(configs, _IGNORED_KEYS)
    missing_is_error = values[_MISSING].lower() == "error"
    if values[_DEPRECATED_MISSING] is not None and _MISSING not in configs:
        missing_is_error = bool(parse_value(_DEPRECATED_MISSING, values[_DEPRECATED_MISSING], ConfigType.BOOLEAN))
        warn_deprecated(_DEPRECATED_MISSING, f"it is read as {_MISSING}={'error' if missing_is_error else 'ignore'}")
    columns = OutboxColumns(
        values["table.field.event.id"],
        values["table.field.event.key"],
        values["table.field.event.payload"],
        values["route.by.field"],
        values["table.field.event.timestamp"],
    )
    return EventRouterConfig(
        columns,
        columns.with_upper_case_defaults(configs),
        values["table.field.event.schema.version"],
        parse_additions(_PLACEMENT, values[_PLACEMENT]),
        missing_is_error,
        InvalidOperation(values["table.op.invalid.behavior"].lower()),
        values["table.expand.json.payload"],
        values["table.json.payload.null.behavior"].lower() == "optional_bytes",
        values["table.json.payload.empty.array.behavior"].lower() == "optional_string",
        values["route.topic.regex"],
        values["route.topic.replacement"],
        values["route.tombstone.on.empty.payload"],
        is_strict(configs),
    )
