"""The settings of EventRouter."""

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
_OLD_MISSING = "table.fields.additional.error.on.missing"
_NOT_TRACED = "spans are not made here; the settings are read so that configurations stay valid"
_IGNORED = {
    "tracing.span.context.field": _NOT_TRACED,
    "tracing.operation.name": _NOT_TRACED,
    "tracing.with.context.field.only": _NOT_TRACED,
    "field.name.adjustment.mode": "names in an expanded payload stay as they are",
}
_COLUMNS = {
    "table.field.event.id": ("id", "Event ID Field", "The column with the id of the event; it becomes the header id."),
    "table.field.event.key": ("aggregateid", "Event Key Field", "The column that becomes the key of the record."),
    "table.field.event.type": (
        "type", "Event Type Field", "The column with the type of the event. It is not used unless it is placed somewhere.",
    ),
    "table.field.event.payload": ("payload", "Event Payload Field", "The column that becomes the value of the record."),
}  # fmt: skip


class InvalidOperation(Enum):
    """What to do with an update of the outbox table."""

    WARN = "warn"
    ERROR = "error"
    FATAL = "fatal"


class Placement(Enum):
    """Where an additional column goes."""

    HEADER = "header"
    ENVELOPE = "envelope"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True)
class Addition:
    """A column that goes somewhere else than into the payload, and its name there."""

    column: str
    placement: Placement
    alias: str


@dataclass(frozen=True, slots=True)
class _Additions:
    """The rule of the placement list."""

    def __call__(self, name: str, value: Any) -> None:
        parse_additions(name, value or [])

    def __str__(self) -> str:
        return "list of column:header, column:envelope or column:partition, each also with :alias"


def parse_additions(key: str, specs: list[str]) -> tuple[Addition, ...]:
    """Raises ConfigError."""
    return tuple(_addition(key, spec) for spec in specs)


def _addition(key: str, spec: str) -> Addition:
    parts = [part.strip() for part in spec.rstrip(":").split(":")]
    if len(parts) not in (2, 3) or not all(parts):
        raise ConfigError.invalid(key, spec, "A comma-separated list of valid String pairs or trios is expected")
    known = {placement.value: placement for placement in Placement}
    if parts[1].lower() not in known:
        raise ConfigError.invalid(key, spec, f"{parts[1]} is no place; there are {', '.join(known)}")
    return Addition(parts[0], known[parts[1].lower()], parts[-1] if len(parts) == 3 else parts[0])


def _build_config_def() -> ConfigDef:
    table = ConfigDef()
    for name, (default, shown, doc) in _COLUMNS.items():
        table.define(
            name, ConfigType.STRING, default, importance=Importance.LOW, width=Width.MEDIUM, group=_TABLE_GROUP,
            display_name=shown, doc=doc,
        )  # fmt: skip
    return (
        table.define(
            "table.field.event.timestamp", ConfigType.STRING, None, importance=Importance.MEDIUM, width=Width.MEDIUM,
            group=_TABLE_GROUP, display_name="Event Timestamp Field",
            doc="The column that becomes the timestamp of the record, in whole milliseconds. None: the time at which the change "
            "was processed.",
        )
        .define(
            _PLACEMENT, ConfigType.LIST, "", validator=_Additions(), importance=Importance.HIGH, width=Width.MEDIUM,
            group=_TABLE_GROUP, display_name="Settings for each additional column in the outbox table",
            doc="Further columns, each as column:place or column:place:alias. header adds a header; envelope makes the value a "
            "struct of payload and such columns; partition takes the column as the number of the partition.",
        )
        .define(
            _MISSING, ConfigType.STRING, "error", validator=one_of("error", "ignore", ignore_case=True),
            importance=Importance.MEDIUM, width=Width.MEDIUM, group=_TABLE_GROUP,
            display_name="Behavior when an additional field is missing in the change data",
            doc="What to do when an event has no such column: error fails, ignore leaves it out.",
        )
        .define(
            "table.field.event.schema.version", ConfigType.STRING, None, importance=Importance.LOW, width=Width.MEDIUM,
            group=_TABLE_GROUP, display_name="Event Schema Version Field",
            doc="The column with the version of the value's schema, where columns are placed in the envelope.",
        )
        .define(
            "table.op.invalid.behavior", ConfigType.STRING, "warn", importance=Importance.MEDIUM, width=Width.MEDIUM,
            validator=one_of(*(one.value for one in InvalidOperation), ignore_case=True), group=_TABLE_GROUP,
            display_name="Behavior when capturing an unexpected outbox event",
            doc="What to do with an update of the table, which should see inserts and deletes only: warn and error drop it with "
            "a message in the log, fatal fails.", aliases=("debezium.op.invalid.behavior",),
        )
        .define(
            "table.expand.json.payload", ConfigType.BOOLEAN, False, importance=Importance.MEDIUM, width=Width.MEDIUM,
            group=_TABLE_GROUP, display_name="Expand Payload escaped string as real JSON",
            doc="Whether a payload that is a JSON object or array as text becomes structs and lists, under a schema made of it. "
            "What is no such JSON stays text, with a warning in the log.",
        )
        .define(
            "table.json.payload.null.behavior", ConfigType.STRING, "ignore", importance=Importance.MEDIUM, width=Width.MEDIUM,
            validator=one_of("ignore", "optional_bytes", ignore_case=True), group=_TABLE_GROUP,
            display_name="Behavior when json payload including null value",
            doc="What becomes of a null in an expanded payload: ignore leaves it out, optional_bytes makes an optional field of "
            "type bytes.",
        )
        .define(
            "table.json.payload.empty.array.behavior", ConfigType.STRING, "ignore", importance=Importance.MEDIUM,
            width=Width.MEDIUM, validator=one_of("ignore", "optional_string", ignore_case=True), group=_TABLE_GROUP,
            display_name="Behavior when json payload including empty array",
            doc="What becomes of an empty array in an expanded payload: ignore leaves it out, optional_string makes a list of "
            "texts.",
        )
        .define(
            "route.by.field", ConfigType.STRING, "aggregatetype", importance=Importance.HIGH, width=Width.MEDIUM,
            group=_ROUTER_GROUP, display_name="Field to route events by", doc="The column that the topic is made of.",
        )
        .define(
            "route.topic.regex", ConfigType.STRING, "(?<routedByValue>.*)", validator=JavaRegex(), importance=Importance.LOW,
            width=Width.MEDIUM, group=_ROUTER_GROUP, display_name="Regex for the routed topic",
            doc="A regular expression for that column's text; its groups can be named in route.topic.replacement.",
        )
        .define(
            "route.topic.replacement", ConfigType.STRING, "outbox.event.${routedByValue}", importance=Importance.HIGH,
            width=Width.MEDIUM, group=_ROUTER_GROUP, display_name="The name of the routed topic",
            doc="The topic; ${routedByValue} is the column's text.",
        )
        .define(
            "route.tombstone.on.empty.payload", ConfigType.BOOLEAN, False, importance=Importance.HIGH, width=Width.MEDIUM,
            group=_ROUTER_GROUP, display_name="Empty payloads cause a tombstone message",
            doc="Whether a payload that is null or blank makes a record without value.",
        )
        .define(
            "tracing.span.context.field", ConfigType.STRING, "tracingspancontext", importance=Importance.LOW, width=Width.SHORT,
            group=_TRACING_GROUP, display_name="Serialized tracing span context field", doc=f"Not used: {_NOT_TRACED}.",
        )
        .define(
            "tracing.operation.name", ConfigType.STRING, "debezium-read", importance=Importance.LOW, width=Width.SHORT,
            group=_TRACING_GROUP, display_name="Tracing operation name", doc=f"Not used: {_NOT_TRACED}.",
        )
        .define(
            "tracing.with.context.field.only", ConfigType.BOOLEAN, False, importance=Importance.LOW, width=Width.SHORT,
            group=_TRACING_GROUP, display_name="Trace only events with context field present", doc=f"Not used: {_NOT_TRACED}.",
        )
        .define(_OLD_MISSING, ConfigType.BOOLEAN, None, internal=True, doc=f"Old; see {_MISSING}.")
    )  # fmt: skip


CONFIG_DEF = _build_config_def()


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of the outbox table's columns."""

    id: str
    key: str | None
    payload: str
    route_by: str
    timestamp: str | None

    def in_capitals(self, given: Mapping[str, Any]) -> Columns:
        """The same with the names that were not given in capitals, as Oracle has them."""
        return Columns(
            self.id if "table.field.event.id" in given else self.id.upper(),
            self.key if self.key is None or "table.field.event.key" in given else self.key.upper(),
            self.payload if "table.field.event.payload" in given else self.payload.upper(),
            self.route_by if "route.by.field" in given else self.route_by.upper(),
            self.timestamp,
        )


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """The settings, typed."""

    columns: Columns
    oracle_columns: Columns
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


def read_settings(configs: Mapping[str, Any]) -> RouterSettings:
    """Raises ConfigError."""
    values = CONFIG_DEF.parse(configs)
    warn_ignored(configs, _IGNORED)
    missing_is_error = values[_MISSING].lower() == "error"
    if values[_OLD_MISSING] is not None and _MISSING not in configs:
        missing_is_error = bool(parse_value(_OLD_MISSING, values[_OLD_MISSING], ConfigType.BOOLEAN))
        warn_deprecated(_OLD_MISSING, f"it is read as {_MISSING}={'error' if missing_is_error else 'ignore'}")
    columns = Columns(
        values["table.field.event.id"],
        values["table.field.event.key"],
        values["table.field.event.payload"],
        values["route.by.field"],
        values["table.field.event.timestamp"],
    )
    return RouterSettings(
        columns,
        columns.in_capitals(configs),
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
