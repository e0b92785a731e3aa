"""TimezoneConverter: converts timestamps of change events to another time zone."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from connect.change_events.envelope import AFTER, BEFORE, SOURCE, envelope_struct, is_envelope_schema
from connect.config.definition import ConfigDef, Importance, Width
from connect.config.types import ConfigType
from connect.data.logical import DATE, TIME, TIMESTAMP
from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.errors import ConfigError, DataError
from connect.record import ConnectRecord
from connect.strict import is_strict
from connect.transforms.api import Transformation
from connect.transforms.debezium.time_zones import (
    Zone,
    parse_zone_name,
    shift_instant,
    shift_local,
    shift_timestamp,
    zoned_time,
    zoned_timestamp,
)
from connect.transforms.record_copies import copy_record
from connect.transforms.structs import new_struct, require_fields

_ZONE, _INCLUDE, _EXCLUDE = "converted.timezone", "include.list", "exclude.list"
_RULES_DOC = (
    "Each rule is source:table, source:table:field, topic:topic, topic:topic:field, or name:field, where name is a topic or "
    "a table; a field may start with before., after., or source. to select only one block."
)
_CONFIG_DEF = (
    ConfigDef()
    .define(
        _ZONE, ConfigType.STRING, importance=Importance.HIGH, width=Width.MEDIUM, display_name="Converted Timezone",
        doc="Time zone to convert to: a region such as America/Los_Angeles, or an offset from UTC such as +08:00.",
    )
    .define(
        _INCLUDE, ConfigType.LIST, "", importance=Importance.HIGH, width=Width.MEDIUM, display_name="Include List",
        doc=f"Fields to convert; no others are converted. {_RULES_DOC}",
    )
    .define(
        _EXCLUDE, ConfigType.LIST, "", importance=Importance.HIGH, width=Width.MEDIUM, display_name="Exclude List",
        doc=f"Fields not to convert; all others are converted. {_RULES_DOC}",
    )
)  # fmt: skip
_TIME = "io.debezium.time."
_EPOCH_UNITS = {"ts_ms": 1_000, "ts_us": 1_000_000, "ts_ns": 1_000_000_000}
_WITHOUT_ZONE = frozenset((f"{_TIME}Date", f"{_TIME}MicroTime", f"{_TIME}NanoTime", f"{_TIME}Time", DATE, TIME))
_MAX_PLANS = 256
_log = logging.getLogger(__name__)


class _BlockPlan(NamedTuple):
    """How one block of the envelope is converted: its index, its schema, and per field the index, default, and conversion."""

    position: int
    schema: Schema
    fields: list[tuple[int, Any, Callable[[Any], Any]]]


class TimezoneConverter(Transformation):
    """Treats numbers and Connect timestamps as local times of the zone and converts them to instants. Text with an offset keeps
    its instant and gets the offset of the zone. ``ts_ms``, ``ts_us``, and ``ts_ns`` of the source block become local times if a
    rule names them. Dates and times of day have no zone and stay. Records that are not change events pass."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def __init__(self, now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)) -> None:
        self._now = now

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _CONFIG_DEF.parse(configs)
        if not values[_ZONE]:
            raise ConfigError.invalid(_ZONE, values[_ZONE], "A value is required")
        include, exclude = values[_INCLUDE] or [], values[_EXCLUDE] or []
        if include and exclude:
            raise ConfigError("Both include and exclude lists are specified. Please specify only one.", key=_INCLUDE)
        self._zone: Zone = parse_zone_name(_ZONE, values[_ZONE], strict=is_strict(configs))
        self._rules: FieldRules = parse_rules(_INCLUDE, include, True) if include else parse_rules(_EXCLUDE, exclude, False)
        self._plans: dict[tuple[int, str, str | None], tuple[Schema, list[_BlockPlan]]] = {}

    def close(self) -> None:
        self._plans.clear()

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        schema = record.value_schema
        if record.value is None or schema is None or not is_envelope_schema(schema):
            return record
        event = envelope_struct(schema, record.value)
        plans = self._plan(schema, record.topic, _source_table(event))
        if not plans:
            return record
        values = list(event.values)
        for plan in plans:
            block = values[plan.position]
            if isinstance(block, Struct):
                values[plan.position] = _convert_block(block, plan)
        new = copy_record(record)
        new.value = new_struct(schema, values)
        return new

    def _plan(self, schema: Schema, topic: str, table: str | None) -> list[_BlockPlan]:
        key = (id(schema), topic, table)
        known = self._plans.get(key)
        if known is not None:
            return known[1]
        selection = self._rules.select(topic, table)
        plans = [] if selection is None else self._plan_blocks(schema, selection)
        if len(self._plans) >= _MAX_PLANS:
            del self._plans[next(iter(self._plans))]
        self._plans[key] = (schema, plans)
        return plans

    def _plan_blocks(self, schema: Schema, selection: FieldSelection) -> list[_BlockPlan]:
        plans: list[_BlockPlan] = []
        for name, named in ((BEFORE, selection.before), (AFTER, selection.after), (SOURCE, selection.source)):
            block = schema.field(name)
            if block is None or block.schema.fields is None or (name == SOURCE and not named):
                continue
            fields = [
                (field.index, field.schema.default, convert)
                for field in block.schema.fields
                if selection.selects(field.name, named)
                and (convert := self._find_converter(field.name, field.schema, name == SOURCE)) is not None
            ]
            if fields:
                plans.append(_BlockPlan(block.index, block.schema, fields))
        return plans

    def _find_converter(self, name: str, schema: Schema, in_source: bool) -> Callable[[Any], Any] | None:
        zone = self._zone
        match schema.name:
            case None:
                return shift_instant(zone, _EPOCH_UNITS[name]) if in_source and name in _EPOCH_UNITS else None
            case "io.debezium.time.Timestamp":
                return shift_local(zone, 1_000)
            case "io.debezium.time.MicroTimestamp":
                return shift_local(zone, 1_000_000)
            case "io.debezium.time.NanoTimestamp":
                return shift_local(zone, 1_000_000_000)
            case "io.debezium.time.ZonedTimestamp":
                return zoned_timestamp(zone)
            case "io.debezium.time.ZonedTime":
                return zoned_time(zone, self._now)
            case _ if schema.name == TIMESTAMP:
                return shift_timestamp(zone)
        if schema.name in _WITHOUT_ZONE:
            _log.warning("The field %s is not converted: type %s has no time zone", name, schema.name)
        return None


def _source_table(event: Struct) -> str | None:
    field = event.schema.field(SOURCE)
    source = None if field is None else event.values[field.index]
    if not isinstance(source, Struct) or source.schema.field("table") is None:
        return None
    table: str | None = source.get("table")
    return table


def _convert_block(block: Struct, plan: _BlockPlan) -> Struct:
    """Copies a block and converts its fields; a null with a default is converted as the default."""
    values = list(block.values)
    for index, default, convert in plan.fields:
        value = default if values[index] is None else values[index]
        if value is not None:
            try:
                values[index] = convert(value)
            except DataError as e:
                raise DataError(f"The field {require_fields(block.schema)[index].name} cannot be converted: {e.message}") from e
    return new_struct(block.schema, values)


_TOPIC = "topic"
_FORMS = "source:<table>, source:<table>:<field>, topic:<topic>, topic:<topic>:<field>, or <name>:<field>"


@dataclass(frozen=True, slots=True)
class FieldSelection:
    """The selected fields of one topic and table by block: all (``includes`` is None), those named, or those not named."""

    includes: bool | None
    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    source: frozenset[str] = frozenset()

    def selects(self, name: str, named: frozenset[str]) -> bool:
        """Whether a field is selected in a block with these named fields."""
        return self.includes is None or (name in named) is self.includes


@dataclass(frozen=True, slots=True)
class FieldRules:
    """Fields by topic, by table, and by a name that may be either. A name without fields selects all its fields."""

    includes: bool
    by_topic: dict[str, set[str]] = field(default_factory=dict)
    by_table: dict[str, set[str]] = field(default_factory=dict)
    by_name: dict[str, set[str]] = field(default_factory=dict)

    def select(self, topic: str, table: str | None) -> FieldSelection | None:
        """The fields to convert in events of a topic and table; None if there are none."""
        found = self._fields(topic, table)
        if found is None:
            return None if self.includes else FieldSelection(None)
        if not found:
            return FieldSelection(None) if self.includes else None
        blocks: dict[str, set[str]] = {BEFORE: set(), AFTER: set(), SOURCE: set()}
        for name in found:
            block, dot, rest = name.partition(".")
            if dot and block in blocks:
                blocks[block].add(rest)
            else:
                blocks[BEFORE].add(name)
                blocks[AFTER].add(name)
        return FieldSelection(self.includes, *(frozenset(blocks[block]) for block in (BEFORE, AFTER, SOURCE)))

    def _fields(self, topic: str, table: str | None) -> set[str] | None:
        for rules, name in ((self.by_topic, topic), (self.by_table, table), (self.by_name, topic), (self.by_name, table)):
            if name is not None and name in rules:
                return rules[name]
        return None


def parse_rules(key: str, rules: list[str], includes: bool) -> FieldRules:
    """Parses rules. A prefix applies to the following rules until the next prefix; the first rule must be more than a name.
    Raises ConfigError."""
    result = FieldRules(includes)
    prefix: str | None = None
    for index, rule in enumerate(rules):
        parts = [part.strip().strip('"') for part in rule.split(":")]
        if not 1 <= len(parts) <= 3 or not all(parts):
            raise ConfigError.invalid(key, rule, f"expected {_FORMS}")
        if len(parts) > 1 and parts[0].lower() in (SOURCE, _TOPIC):
            prefix = parts.pop(0).lower()
        elif len(parts) == 3:
            raise ConfigError.invalid(key, rule, f"{parts[0]} is neither source nor topic; expected {_FORMS}")
        elif len(parts) == 1 and index == 0:
            raise ConfigError.invalid(key, rule, f"a name alone is not a rule; expected {_FORMS}")
        where = result.by_topic if prefix == _TOPIC else result.by_table if prefix == SOURCE else result.by_name
        where.setdefault(parts[0], set()).update(parts[1:])
    return result
