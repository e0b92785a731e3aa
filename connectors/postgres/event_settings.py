"""The keys of the form of events: names, masks, and parameters of columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef, ConfigType, Importance
from connect.config.validators import one_of
from connectors.postgres.column_rules import ColumnRule, parse_column_rules
from connectors.postgres.config_validators import RegexList

_ADJUSTMENT_MODES = ("none", "avro", "avro_unicode")


@dataclass(frozen=True, slots=True)
class EventSettings:
    """The form of events."""

    column_rules: tuple[ColumnRule, ...] = ()
    schema_name_adjustment: str = "none"
    field_name_adjustment: str = "none"


def define_event_form_keys(keys: ConfigDef) -> None:
    group = "Events"
    for what, where in (("schema", "names of schemas"), ("field", "names of fields, which are those of columns")):
        keys.define(
            f"{what}.name.adjustment.mode",
            ConfigType.STRING,
            "none",
            group=group,
            importance=Importance.LOW,
            validator=one_of(*_ADJUSTMENT_MODES),
            doc=f"How {where} are adjusted to Avro: not at all (none), by _ in place of each invalid character (avro), or by "
            "_uxxxx in place of each invalid character and of _ (avro_unicode).",
        )
    keys.define(
        "column.propagate.source.type",
        ConfigType.STRING,
        None,
        group=group,
        importance=Importance.LOW,
        validator=RegexList(),
        doc="Comma-separated regular expressions of columns (schema.table.column) whose schemas get the parameters "
        "__debezium.source.column.type, length, scale, and name. A column has one rule: truncation or a mask comes first.",
    )
    keys.define(
        "datatype.propagate.source.type",
        ConfigType.STRING,
        None,
        group=group,
        importance=Importance.LOW,
        validator=RegexList(),
        doc="The same for all columns of a type (schema.table.type, for example .+\\.numeric).",
    )


def parse_event_settings(values: Mapping[str, Any], config: Mapping[str, str]) -> EventSettings:
    """Parses the settings; ``values`` are the parsed keys, and ``config`` has those without a fixed name. Raises ConfigError."""
    return EventSettings(parse_column_rules(config), values["schema.name.adjustment.mode"], values["field.name.adjustment.mode"])
