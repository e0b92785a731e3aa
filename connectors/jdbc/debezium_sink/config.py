"""Configuration of the Debezium JDBC sink: keys, typed values, and rules between keys."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from connect.change_events.toast import UNAVAILABLE_VALUE
from connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Recommender, Width
from connect.config.parsing import parse_value
from connect.config.validators import at_least
from connect.errors import ConfigError
from connect.java.regex import RegexError, compile_java_regex
from connect.strict import is_strict
from connectors.jdbc.config_validators import SuggestedValues, TimeZoneName
from connectors.jdbc.database import ConnectionSettings
from connectors.jdbc.debezium_sink.naming import CollectionNaming, FieldFilter
from connectors.jdbc.options import Calendar, InsertMode, WriteOptions
from connectors.jdbc.sink.config import STATEMENT_TIMEOUT_MS, SinkWriterConfig
from connectors.jdbc.urls.connection_url import ConnectionTarget, parse_connection_url


class DebeziumKeyMode(Enum):
    """``primary.key.mode``: origin of the primary key."""

    NONE = "none"
    KAFKA = "kafka"
    RECORD_KEY = "record_key"
    RECORD_VALUE = "record_value"
    RECORD_HEADER = "record_header"


@dataclass(frozen=True, slots=True)
class DebeziumPlannerConfig:
    """How records become changes."""

    key_mode: DebeziumKeyMode
    key_fields: tuple[str, ...]
    fields: FieldFilter
    names: CollectionNaming
    insert_mode: InsertMode
    deletes: bool
    truncates: bool
    preserves_case: bool
    cloud_events: re.Pattern[str]
    """Schema names of CloudEvents."""
    unavailable: str
    """Placeholder of unavailable values; empty: none."""
    postgis_schema: str = "public"
    required_topics: tuple[str, ...] = ()
    """Topics whose tables must exist when a task starts."""

    @property
    def needs_key(self) -> bool:
        return self.insert_mode is not InsertMode.INSERT or self.deletes


OPEN_PREFIXES = ("hibernate.",)
INSERT_MODES = ("upsert", "insert", "update")
KEY_MODES = ("record_key", "record_value", "kafka", "record_header", "none")
EVOLUTIONS = ("none", "basic", "validate-only")
BATCH_MODES = ("deduplication", "passthrough")

COLLECTION_NAMING = "io.debezium.sink.naming.DefaultCollectionNamingStrategy"
COLLECTION_NAMING_CLASSES = (
    COLLECTION_NAMING,
    "io.debezium.sink.naming.PassthroughCollectionNamingStrategy",
    "io.debezium.connector.jdbc.naming.DefaultTableNamingStrategy",
)
COLUMN_NAMING = "io.debezium.connector.jdbc.naming.DefaultColumnNamingStrategy"
COLUMN_NAMING_CLASSES = (COLUMN_NAMING, "io.debezium.sink.naming.DefaultColumnNamingStrategy")


@dataclass(frozen=True, slots=True)
class DebeziumChoice:
    """One of these names, in any case. The error has the message that Debezium logs."""

    values: Sequence[str]

    def __call__(self, name: str, value: Any) -> None:
        if value is None or value.strip().lower() in self.values:
            return
        near = difflib.get_close_matches(value.strip().lower(), self.values, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(
            f"The '{name}' value '{value}' is invalid: Value must be one of {', '.join(self.values)}{hint}", key=name
        )

    def __str__(self) -> str:
        return f"[{', '.join(self.values)}]"


@dataclass(frozen=True, slots=True)
class KnownJavaClass:
    """One of Debezium's classes; others cannot be loaded without Java."""

    values: Sequence[str]

    def __call__(self, name: str, value: Any) -> None:
        if value not in self.values:
            raise ConfigError(
                f"Invalid value {value} for configuration {name}: Class {value} could not be found. Expected one of "
                f"{', '.join(self.values)}; for other names use collection.name.format, or "
                "transformations (RegexRouter for topics, ReplaceField for fields)",
                key=name,
            )

    def __str__(self) -> str:
        return f"[{', '.join(self.values)}]"


@dataclass(frozen=True, slots=True)
class JavaRegex:
    """A Java regular expression, or null."""

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            return
        try:
            compile_java_regex(value)
        except RegexError as e:
            raise ConfigError.invalid(name, value, str(e)) from e

    def __str__(self) -> str:
        return "regular expression"


S, N, L, B, P, LIST, C = (  # columns of the table below
    ConfigType.STRING, ConfigType.INT, ConfigType.LONG, ConfigType.BOOLEAN, ConfigType.PASSWORD, ConfigType.LIST,
    ConfigType.CLASS,
)  # fmt: skip
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
SHORT, MID, LONG = Width.SHORT, Width.MEDIUM, Width.LONG


def _key(
    name: str, type: ConfigType, default: Any, importance: Importance, width: Width, display_name: str, doc: str, **members: Any
) -> ConfigKey:
    return ConfigKey(
        name, type, default, importance=importance, doc=doc, width=width, display_name=display_name, **members
    )  # fmt: skip


def _choice(values: Sequence[str]) -> dict[str, DebeziumChoice | Recommender]:
    return {"validator": DebeziumChoice(values), "recommender": SuggestedValues(values)}


# With Debezium's order in the group. A key and its old name have the same order.
_SHOWN: tuple[tuple[int, ConfigKey], ...] = (
    (1, _key("connection.url", S, None, HIGH, LONG, "Hostname",
             "JDBC URL (jdbc:postgresql://host:5432/shop) or SQLAlchemy URL (postgresql+psycopg2://host/shop) of the database.")),
    (2, _key("connection.username", S, None, HIGH, SHORT, "User", "Database user.")),
    (3, _key("connection.password", P, None, HIGH, SHORT, "Password", "Password of the database user.")),
    (4, _key("connection.pool.min_size", N, 5, LOW, SHORT, "Connection pool minimum size",
             "Accepted without effect: each task has one connection.")),
    (5, _key("connection.pool.max_size", N, 32, LOW, SHORT, "Connection pool maximum size",
             "Accepted without effect: each task has one connection.")),
    (6, _key("connection.pool.timeout", L, 1800, LOW, SHORT, "Connection pool timeout",
             "Accepted without effect: a lost connection is reopened.")),
    (7, _key("insert.mode", S, "insert", LOW, SHORT, "The insertion mode to use",
             "How rows are written. insert: insert a row. upsert: insert or update the row with the key. update: update the row "
             "with the key, if it exists.", **_choice(INSERT_MODES))),
    (8, _key("delete.enabled", B, False, LOW, SHORT, "Controls whether records can be deleted by the connector",
             "Whether delete events and tombstones delete the row with their key; otherwise they are skipped. Needs "
             "primary.key.mode record_key, record_value or record_header.")),
    (9, _key("truncate.enabled", B, False, LOW, SHORT, "Controls whether tables can be truncated by the connector",
             "Whether truncate events empty the table; otherwise they are skipped.")),
    (10, _key("collection.name.format", S, "${topic}", MEDIUM, MID, "A format string for the collection name",
              "Name of a record's table. ${topic} is the topic with dots replaced by _; ${source.table}, ${source.schema}, ... "
              "are fields of a change event's source block. A dot separates schema and table.")),
    (10, _key("table.name.format", S, "${topic}", MEDIUM, MID, "A format string for the collection name",
              "Old name of collection.name.format.")),
    (11, _key("primary.key.mode", S, "none", HIGH, SHORT, "Primary key mode",
              "Origin of the primary key. none: no key. kafka: topic, partition and offset of the record, in columns "
              "__connect_topic, __connect_partition, __connect_offset. record_key: fields of the record key. record_value: "
              "fields of the row. record_header: record headers.", **_choice(KEY_MODES))),
    (12, _key("primary.key.fields", S, None, LOW, MID, "Comma-separated list of primary key field names",
              "Fields (or headers) of the key; empty: all. For a key that is not a struct: name of its column.")),
    (13, _key("schema.evolution", S, "none", LOW, SHORT, "Controls how schema evolution is handled by the sink connector",
              "basic: create missing tables and add missing columns. none: missing tables and columns are errors. "
              "validate-only: like none, and the tables of the topics must exist at startup.", **_choice(EVOLUTIONS))),
    (14, _key("quote.identifiers", B, False, LOW, SHORT,
              "Controls whether table, column, or other identifiers are quoted",
              "Whether names keep their case. false: names have the case that the database gives to unquoted names: lower in "
              "PostgreSQL, upper in Oracle and Db2; names that start with _ are unchanged. Reserved words and special "
              "characters work either way.")),
    (15, _key("collection.naming.strategy", C, COLLECTION_NAMING, LOW, LONG, "CollectionNamingStrategy class",
              "DefaultCollectionNamingStrategy (dots of the topic become _) or PassthroughCollectionNamingStrategy (dots are "
              "kept).",
              validator=KnownJavaClass(COLLECTION_NAMING_CLASSES))),
    (15, _key("table.naming.strategy", C, COLLECTION_NAMING, LOW, LONG, "CollectionNamingStrategy class",
              "Old name of collection.naming.strategy.", validator=KnownJavaClass(COLLECTION_NAMING_CLASSES))),
    (16, _key("column.naming.strategy", C, COLUMN_NAMING, LOW, LONG,
              "Name of the strategy class that implements the ColumnNamingStrategy interface",
              "How columns are named: like their fields.", validator=KnownJavaClass(COLUMN_NAMING_CLASSES))),
    (17, _key("collection.table.format", S, "${table}", MEDIUM, LONG, "Format string using table name",
              "Accepted without effect, like in Debezium; use collection.name.format.")),
    (18, _key("use.time.zone", S, "UTC", MEDIUM, SHORT, "The timezone used when inserting temporal values.",
              "Accepted without effect, like in Debezium on PostgreSQL and MySQL: times without a time zone are written "
              "unchanged, instants as instants, in UTC if the column has no time zone.", validator=TimeZoneName())),
    (18, _key("database.time_zone", S, "UTC", MEDIUM, SHORT, "The timezone used when inserting temporal values.",
              "Old name of use.time.zone.", validator=TimeZoneName())),
    (19, _key("dialect.postgres.postgis.schema", S, "public", LOW, LONG,
              "Name of the schema where postgis extension is installed",
              "Schema of the PostGIS types of new columns.")),
    (20, _key("dialect.postgres.unnest.insert.enabled", B, False, MEDIUM, SHORT,
              "Enable UNNEST-based batch inserts for PostgreSQL",
              "Accepted without effect: a batch is always one statement.")),
    (21, _key("dialect.sqlserver.identity.insert", B, False, LOW, SHORT,
              "Allowing to insert explicit value for identity column in table for SQLSERVER.",
              "Accepted without effect: IDENTITY_INSERT is a session setting, which the sink does not change.")),
    (22, _key("batch.size", N, 500, MEDIUM, SHORT,
              "Specifies how many records to attempt to batch together into the destination table, when possible. You can also "
              "configure the connector\N{RIGHT SINGLE QUOTATION MARK}s underlying consumer\N{RIGHT SINGLE QUOTATION MARK}s "
              "max.poll.records using consumer.override.max.poll.records in the connector configuration.",
              "Maximum number of records per statement. The consumer limits how many arrive at once "
              "(consumer.override.max.poll.records).")),
    (23, _key("field.include.list", LIST, None, MEDIUM, LONG, "Include Fields",
              "Fields to write, as field or topic:field; all others are ignored. Fields of the record key must be listed too, "
              "unless primary.key.fields has them.")),
    (24, _key("field.exclude.list", LIST, None, MEDIUM, LONG, "Exclude Fields", "Fields to ignore, as field or topic:field.")),
    (25, _key("flush.max.retries", N, 5, LOW, SHORT, "Max retry count",
              "Maximum number of consecutive retries of a batch after a lost connection or a temporary error (a deadlock, a "
              "restart).")),
    (26, _key("flush.retry.delay.ms", L, 1000, LOW, SHORT, "Delay to retry flush", "Time to wait before each retry.")),
    (27, _key("connection.restart.on.errors", B, False, LOW, SHORT, "Restart connection on errors",
              "Accepted without effect: a lost connection is reopened and the whole batch is retried.")),
    (28, _key("cloud.events.schema.name.pattern", S, ".*CloudEvents\\.Envelope$", LOW, LONG,
              "CloudEvents messages schema name pattern",
              "Records whose value schema name matches are CloudEvents, whose data is the change event.",
              validator=JavaRegex())),
)  # fmt: skip

_OTHERS: tuple[ConfigKey, ...] = (
    _key("use.reduction.buffer", B, False, MEDIUM, SHORT, "Use the reduction buffer",
         "Accepted without effect: only the last change of a key in a batch is written, except with insert.mode=insert."),
    _key("keyed.message.batch.mode", S, "deduplication", MEDIUM, SHORT, "Keyed message batch mode",
         "Accepted without effect; see use.reduction.buffer.", **_choice(BATCH_MODES)),
    _key("connection.provider", S, None, LOW, LONG, "Connection provider",
         "Accepted without effect: Java classes do not create the connections."),
    _key("dialect.starrocks.catalog.name", S, None, LOW, LONG, "StarRocks catalog", "Accepted without effect."),
    _key("enable.sces", B, False, LOW, SHORT, "Shared change event sink",
         "Accepted without effect: records that cannot be written always go to the dead letter queue."),
    _key("unavailable.value.placeholder", S, UNAVAILABLE_VALUE, LOW, MID, "Unavailable value placeholder",
         "Placeholder that the source writes for a large value that an update did not change (the source's key of the same "
         "name). The column keeps its value. Debezium's sink writes the placeholder; empty does the same here."),
    _key("connection.attempts", N, 3, LOW, SHORT, "Connection attempts",
         "Number of consecutive failed connection attempts after which a batch counts as failed (see flush.max.retries).",
         validator=at_least(1)),
    _key("connection.backoff.ms", L, 10_000, LOW, SHORT, "Connection backoff (ms)", "Time to wait between connection attempts.",
         validator=at_least(0)),
    _key("statement.timeout.ms", L, STATEMENT_TIMEOUT_MS, LOW, SHORT, "Statement timeout (ms)",
         "Maximum duration of a statement, if the database supports it; 0: no limit. Must be lower than the consumer's "
         "max.poll.interval.ms.", validator=at_least(0)),
)  # fmt: skip


def config_def() -> ConfigDef:
    """Builds the ConfigDef. Each call returns a new one, because callers may add keys."""
    table = ConfigDef()
    for order, key in _SHOWN:
        table.add(replace(key, group="Connector", order=order))
    for order, key in enumerate(_OTHERS, 1):
        table.add(replace(key, group="More", order=order))
    return table


log = logging.getLogger(__name__)

_PASSTHROUGH = "PassthroughCollectionNamingStrategy"
_RENAMED = {
    "collection.name.format": "table.name.format",
    "collection.naming.strategy": "table.naming.strategy",
    "use.time.zone": "database.time_zone",
}
"""Old name of each renamed key; the new name wins if both are set."""
_HIBERNATE_CHANGES = (
    "hibernate.default_schema", "hibernate.default_catalog", "hibernate.globally_quoted_identifiers", "hibernate.jdbc.time_zone",
    "hibernate.physical_naming_strategy", "hibernate.implicit_naming_strategy", "hibernate.dialect", "hibernate.connection.",
    "hibernate.type.",
)  # fmt: skip
"""Prefixes of Hibernate keys that change what or where Debezium writes."""


def parse_debezium_config(config: Mapping[str, str]) -> tuple[SinkWriterConfig, DebeziumPlannerConfig]:
    """Parses a configuration. Raises ConfigError for the first invalid key or conflict."""
    v = config_def().parse(config)
    for key, problem in find_key_conflicts(v, config):
        raise ConfigError(problem, key=key)
    for key, old in _RENAMED.items():
        if key not in config and old in config:
            v[key] = v[old]
    evolves = v["schema.evolution"].strip().lower() == "basic"
    mode = _insert_mode(v)
    settings = SinkWriterConfig(
        connection=ConnectionSettings(
            parse_target(v),
            attempts=v["connection.attempts"],
            backoff_ms=v["connection.backoff.ms"],
            statement_timeout_ms=v["statement.timeout.ms"],
            pool_size=1,
        ),
        insert_mode=mode,
        # Debezium counts days in the proleptic calendar, and writes null even if the field has a default.
        write=WriteOptions(
            calendar=Calendar.PROLEPTIC_GREGORIAN, null_as_default=False, strict=is_strict(config), overrides_identity=True
        ),
        batch_rows=max(1, v["batch.size"]),
        creates_tables=evolves,
        adds_columns=evolves,
        max_retries=max(0, v["flush.max.retries"]),
        retry_backoff_ms=max(0, v["flush.retry.delay.ms"]),
        tolerates_errors=(config.get("errors.tolerance") or "none").strip() == "all",
        uses_semantic_types=True,
        create_setting="schema.evolution=basic",
        evolve_setting="schema.evolution=basic",
        retries_key="flush.max.retries",
    )
    planner_config = DebeziumPlannerConfig(
        key_mode=_key_mode(v),
        key_fields=_key_fields(v),
        fields=_field_filter(v),
        names=CollectionNaming(v["collection.name.format"] or "${topic}", v["collection.naming.strategy"].endswith(_PASSTHROUGH)),
        insert_mode=mode,
        deletes=v["delete.enabled"],
        truncates=v["truncate.enabled"],
        preserves_case=v["quote.identifiers"],
        cloud_events=compile_java_regex(v["cloud.events.schema.name.pattern"]),
        unavailable=v["unavailable.value.placeholder"],
        postgis_schema=v["dialect.postgres.postgis.schema"] or "public",
        required_topics=_parse_topics(config) if v["schema.evolution"].strip().lower() == EVOLUTIONS[2] else (),
    )
    return settings, planner_config


def warn_about_hibernate_keys(config: Mapping[str, str]) -> None:
    """Warns about Hibernate keys that Debezium would use and this sink ignores."""
    for key in sorted(config):
        if key.startswith(_HIBERNATE_CHANGES):
            log.warning("%s has no effect here; with Debezium it may change what is written", key)


def parse_target(values: Mapping[str, Any]) -> ConnectionTarget:
    """Parses the connection target. Raises ConfigError."""
    password = values["connection.password"]
    return parse_connection_url(
        values["connection.url"].strip(), values["connection.username"], password.value if password else None, {}
    )


def find_key_conflicts(values: Mapping[str, Any], config: Mapping[str, str]) -> list[tuple[str, str]]:
    """Returns conflicts between valid keys as (key, message). Invalid keys are None in ``values``."""
    found: list[tuple[str, str]] = []
    if not (values["connection.url"] or "").strip():
        found.append(
            ("connection.url", f"The 'connection.url' value '{values['connection.url'] or ''}' is invalid: A value is required")
        )
    key_mode = _key_mode(values) if values["primary.key.mode"] else None
    mode = _insert_mode(values) if values["insert.mode"] else None
    if values["delete.enabled"] and key_mode in (DebeziumKeyMode.NONE, DebeziumKeyMode.KAFKA):
        found.append(
            (
                "delete.enabled",
                "When 'delete.enabled' is set to 'true', the 'primary.key.mode' option must be set to 'record_key', "
                "'record_value', or 'record_header'.",
            )
        )
    if key_mode is DebeziumKeyMode.NONE and mode in (InsertMode.UPSERT, InsertMode.UPDATE):
        also = "" if values["primary.key.fields"] or "primary.key.mode" in config else " and 'primary.key.fields'"
        found.append(
            (
                "primary.key.mode",
                f"When using {mode.name}, please define 'primary.key.mode'{also}: record_key, record_value, record_header, kafka",
            )
        )
    if values["field.include.list"] and values["field.exclude.list"]:
        found.append(
            ("field.exclude.list", "Cannot define both column.exclude.list and column.include.list. Please specify only one.")
        )
    for key in ("field.include.list", "field.exclude.list"):
        found += [
            (key, f"{entry!r} does not have the form <field> or <topic>:<field>")
            for entry in values[key] or ()
            if entry.count(":") > 1
        ]
    found += _confluent_names(config)
    return found


def _confluent_names(config: Mapping[str, str]) -> list[tuple[str, str]]:
    """Finds keys of Confluent's sink, which have other names here."""
    others = {
        "connection.user": "connection.username", "pk.mode": "primary.key.mode", "pk.fields": "primary.key.fields",
        "auto.create": "schema.evolution", "auto.evolve": "schema.evolution", "fields.whitelist": "field.include.list",
    }  # fmt: skip
    return [
        (key, f"{other} is a key of the JDBC sinks of Confluent and Aiven; here it is {key}")
        for other, key in others.items()
        if other in config and key not in config
    ]


def _parse_topics(config: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(parse_value("topics", config.get("topics") or "", ConfigType.LIST))


def _key_fields(values: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name.strip() for name in (values["primary.key.fields"] or "").split(",") if name.strip())


def _field_filter(values: Mapping[str, Any]) -> FieldFilter:
    excluded = values["field.exclude.list"]
    return FieldFilter(tuple(excluded or values["field.include.list"] or ()), includes=not excluded)


def _key_mode(values: Mapping[str, Any]) -> DebeziumKeyMode:
    return DebeziumKeyMode(values["primary.key.mode"].strip().lower())


def _insert_mode(values: Mapping[str, Any]) -> InsertMode:
    return InsertMode(values["insert.mode"].strip().lower())
