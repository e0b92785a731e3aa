"""The keys of the form of events: names, masks, and parameters of columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef, ConfigType, Importance
from connect.config.validators import one_of
from connectors.cdc.config.column_rules import ColumnRule, parse_column_rules
from connectors.cdc.config.converter_keys import NamedConverter, define_converter_keys, parse_converters
from connectors.cdc.config.validators import TOPIC_PREFIX, PatternText, RegexList, SupportedValues

_METADATA_FACTORY = "io.debezium.pipeline.txmetadata.DefaultTransactionMetadataFactory"
_ADJUSTMENT_MODES = ("none", "avro", "avro_unicode")


@dataclass(frozen=True, slots=True)
class EventSettings:
    """The form of events."""

    column_rules: tuple[ColumnRule, ...] = ()
    schema_name_adjustment: str = "none"
    field_name_adjustment: str = "none"
    transaction_metadata: bool = False
    transaction_topic: str = "transaction"
    """Without the topic prefix."""
    failure_mode: str = "fail"
    """What becomes of a row that cannot be converted: fail, warn, skip, or ignore."""
    converting_mode: str | None = None
    """What becomes of a value that cannot be converted: warn or skip make it null, anything else fails the row."""
    converters: tuple[NamedConverter, ...] = ()
    """Custom converters of columns, in their order."""


def define_event_form_keys(keys: ConfigDef, word: str) -> None:
    """``word`` is what contains tables."""
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
        "provide.transaction.metadata",
        ConfigType.BOOLEAN,
        False,
        group=group,
        importance=Importance.LOW,
        doc="Write the beginning and the end of each transaction, with counts of its events, to the topic "
        "<topic.prefix>.<topic.transaction>, and fill the transaction block of events: their place in the transaction.",
    )
    keys.define(
        "topic.transaction",
        ConfigType.STRING,
        "transaction",
        group=group,
        importance=Importance.LOW,
        validator=PatternText(TOPIC_PREFIX, "only letters, digits, '.', '_', and '-'"),
        doc="Topic of transaction metadata: <topic.prefix>.<this name>.",
    )
    keys.define(
        "transaction.metadata.factory",
        ConfigType.STRING,
        _METADATA_FACTORY,
        group="Not supported",
        importance=Importance.LOW,
        validator=SupportedValues((_METADATA_FACTORY.lower(),), "other factories are not supported; remove the key"),
        doc="Only Debezium's default factory.",
    )
    keys.define(
        "topic.heartbeat.name",
        ConfigType.STRING,
        None,
        group=group,
        importance=Importance.LOW,
        validator=PatternText(TOPIC_PREFIX, "only letters, digits, '.', '_', and '-'"),
        doc="Topic of heartbeats, in place of <topic.heartbeat.prefix>.<topic.prefix>; connectors can share one.",
    )
    keys.define(
        "event.processing.failure.handling.mode",
        ConfigType.STRING,
        "fail",
        group="Errors",
        importance=Importance.MEDIUM,
        validator=one_of("fail", "warn", "skip", "ignore"),
        doc="What becomes of a row that cannot be converted. fail leaves it to the worker: errors.tolerance=none fails the task, "
        "all skips the row. warn skips it with a warning, skip and ignore silently. Each reports the row as errors.log.* and "
        "errors.deadletterqueue.source.* say, with table, key, and position.",
    )
    keys.define(
        "event.converting.failure.handling.mode",
        ConfigType.STRING,
        None,
        group="Errors",
        importance=Importance.LOW,
        validator=one_of(None, "fail", "warn", "skip"),
        doc="What becomes of a value that cannot be converted, if its column may be null and is not part of the key. warn makes "
        "it null with a warning, skip silently. fail treats the whole row as event.processing.failure.handling.mode says, and so "
        "does the connector if the key is not set (Debezium: warn), so that no value is lost unnoticed.",
    )
    keys.define(
        "column.propagate.source.type",
        ConfigType.STRING,
        None,
        group=group,
        importance=Importance.LOW,
        validator=RegexList(),
        doc=f"Comma-separated regular expressions of columns ({word}.table.column) whose schemas get the parameters "
        "__debezium.source.column.type, length, scale, and name. A column has one rule: truncation or a mask comes first.",
    )
    keys.define(
        "datatype.propagate.source.type",
        ConfigType.STRING,
        None,
        group=group,
        importance=Importance.LOW,
        validator=RegexList(),
        doc=f"The same for all columns of a type ({word}.table.type, for example .+\\.varchar).",
    )
    define_converter_keys(keys)


def parse_event_settings(values: Mapping[str, Any], config: Mapping[str, str]) -> EventSettings:
    """Parses the settings; ``values`` are the parsed keys, and ``config`` has those without a fixed name. Raises ConfigError."""
    return EventSettings(
        parse_column_rules(config),
        values["schema.name.adjustment.mode"],
        values["field.name.adjustment.mode"],
        values["provide.transaction.metadata"],
        values["topic.transaction"],
        values["event.processing.failure.handling.mode"],
        values["event.converting.failure.handling.mode"],
        parse_converters(config),
    )
