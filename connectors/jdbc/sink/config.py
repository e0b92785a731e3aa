"""Configuration of the Confluent and Aiven JDBC sinks: keys, typed values, and rules between keys."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from connect.config.definition import NO_DEFAULT, ConfigDef, ConfigKey, ConfigType, Importance, Width
from connect.config.parsing import parse_value
from connect.config.validators import NonEmpty, at_least
from connect.errors import ConfigError
from connect.strict import is_strict
from connectors.jdbc.config_validators import (
    DIALECTS,
    NameChoice,
    QuoteMode,
    SuggestedValues,
    TimeZoneName,
    check_dialect,
    parse_zone,
)
from connectors.jdbc.database import ConnectionSettings
from connectors.jdbc.flavor import ConnectorFlavor
from connectors.jdbc.options import Calendar, InsertMode, WriteOptions
from connectors.jdbc.sink.naming import TableNaming, parse_topic_mapping
from connectors.jdbc.sink.planner import JdbcSinkPlannerConfig
from connectors.jdbc.sink.rows import COORDINATES, FieldConfig, KeyMode
from connectors.jdbc.urls.connection_url import ConnectionTarget, parse_connection_url

PK_FIELDS_OF = "pk.fields."
"""Prefix of keys that name the key fields of one topic."""
OPEN_PREFIXES = ("connection.", "jdbc.credentials.provider.", PK_FIELDS_OF)
TABLE_TYPES = ("TABLE", "PARTITIONED TABLE", "VIEW")
STATEMENT_TIMEOUT_MS = 180_000
"""Less than max.poll.interval.ms, after which the consumer is removed from its group."""


@dataclass(frozen=True, slots=True)
class EnumeratorChoice:
    """One of these names in lower or upper case, or a list of them."""

    values: Sequence[str]

    def __call__(self, name: str, value: Any) -> None:
        for one in value if isinstance(value, list) else (value,):
            if one is None or not {one, one.lower(), one.upper()} & set(self.values) or one not in (one.lower(), one.upper()):
                near = difflib.get_close_matches(str(one).lower(), [known.lower() for known in self.values], 1)
                hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(self.values)}"
                raise ConfigError.invalid(name, one, f"Invalid enumerator; {hint}")

    def __str__(self) -> str:
        return f"[{', '.join(self.values)}]"


@dataclass(frozen=True, slots=True)
class TopicMapping:
    """``topic:table`` entries."""

    def __call__(self, name: str, value: Any) -> None:
        if value is not None:
            parse_topic_mapping(name, value)

    def __str__(self) -> str:
        return "list of topic:table"


S, N, L, B, P, LIST = (  # columns of the table below
    ConfigType.STRING, ConfigType.INT, ConfigType.LONG, ConfigType.BOOLEAN, ConfigType.PASSWORD, ConfigType.LIST,
)  # fmt: skip
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
SHORT, MID, LONG = Width.SHORT, Width.MEDIUM, Width.LONG


def _key(
    name: str, type: ConfigType, default: Any, importance: Importance, width: Width, display_name: str, doc: str, **members: Any
) -> ConfigKey:
    return ConfigKey(
        name, type, default, importance=importance, doc=doc, width=width, display_name=display_name, **members
    )  # fmt: skip


def _choice(values: Sequence[str]) -> dict[str, Any]:
    return {"validator": EnumeratorChoice(values), "recommender": SuggestedValues(values)}


_KEYS: dict[str, ConfigKey] = {
    key.name: key
    for key in (
        # Database
        _key("connection.url", S, NO_DEFAULT, HIGH, LONG, "JDBC URL",
             "JDBC URL (jdbc:postgresql://host:5432/shop) or SQLAlchemy URL (postgresql+psycopg2://host/shop) of the database.",
             validator=NonEmpty()),
        _key("connection.user", S, None, HIGH, MID, "JDBC User", "Database user."),
        _key("connection.password", P, None, HIGH, MID, "JDBC Password", "Password of the database user."),
        _key("connection.attempts", N, 3, LOW, SHORT, "JDBC connection attempts",
             "Number of consecutive failed connection attempts after which a batch counts as failed (see max.retries).",
             validator=at_least(1)),
        _key("connection.backoff.ms", L, 10_000, LOW, SHORT, "JDBC connection backoff in milliseconds",
             "Time to wait between connection attempts.", validator=at_least(0)),
        _key("jdbc.credentials.provider.class", S, None, LOW, LONG, "JDBC Credentials Provider Implementation",
             "Accepts only the default provider (user and password of the configuration). For other credentials use "
             "configuration providers: ${file:...}, ${env:...}."),
        _key("db.timezone", S, "UTC", MEDIUM, MID, "DB time zone",
             "Time zone of dates and timestamps in columns without a time zone.", validator=TimeZoneName()),
        _key("dialect.name", S, "", LOW, MID, "Database Dialect",
             "Checked against connection.url, which determines the dialect.",
             validator=NameChoice(DIALECTS, empty=True), recommender=SuggestedValues(DIALECTS)),
        _key("sql.quote.identifiers", B, True, LOW, SHORT, "Quote SQL Identifiers",
             "Aiven's name of quote.sql.identifiers: true is always, false is never."),
        _key("statement.timeout.ms", L, STATEMENT_TIMEOUT_MS, LOW, SHORT, "Statement Timeout (ms)",
             "Maximum duration of a statement, if the database supports it; 0: no limit. Must be lower than the consumer's "
             "max.poll.interval.ms.", validator=at_least(0)),
        # Writes
        _key("insert.mode", S, "insert", HIGH, MID, "Insert Mode",
             "How records are written. insert (and multi, Aiven's name of its multi-row form): insert a row. upsert: insert or "
             "update the row with the key. update: update the row with the key, if it exists.",
             **_choice(("insert", "multi", "upsert", "update"))),
        _key("batch.size", N, 3000, MEDIUM, SHORT, "Batch Size",
             "Maximum number of records per statement. The consumer limits how many arrive at once "
             "(consumer.override.max.poll.records).", validator=at_least(0)),
        _key("delete.enabled", B, False, MEDIUM, SHORT, "Enable deletes",
             "Whether a tombstone (record without a value) deletes the row with its key. Needs pk.mode=record_key. Otherwise "
             "tombstones are errors."),
        _key("table.types", LIST, "TABLE", LOW, MID, "Table Types",
             "Types of tables that may be written to: TABLE, PARTITIONED TABLE, VIEW. If not set, partitioned tables are "
             "allowed too (Aiven's connector, which lacks the key: all types).", **_choice(TABLE_TYPES)),
        # Data Mapping
        _key("table.name.format", S, "${topic}", MEDIUM, LONG, "Table Name Format",
             "Name of a topic's table. ${topic} is the topic. A dot separates schema and table: shop.${topic}."),
        _key("table.name.normalize", B, False, MEDIUM, LONG, "Table Name Normalize",
             "Whether characters of the table name other than letters, digits and _ are replaced by _."),
        _key("topics.to.tables.mapping", LIST, None, MEDIUM, LONG, "Topics To Tables Mapping",
             "topic:table,topic:table instead of table.name.format. Topics that are not listed have no table.",
             validator=TopicMapping()),
        _key("pk.mode", S, "none", HIGH, MID, "Primary Key Mode",
             "Origin of the primary key. none: no key. kafka: topic, partition and offset of the record. record_key: fields of "
             "the record key, or the key itself. record_value: fields of the value.",
             **_choice(("none", "kafka", "record_key", "record_value"))),
        _key("pk.fields", LIST, "", MEDIUM, LONG, "Primary Key Fields",
             "Fields of the key; empty: all. With pk.mode=kafka: names of three columns "
             "(__connect_topic,__connect_partition,__connect_offset); with a primitive key: name of its column. "
             "pk.fields.<topic> overrides it for a topic."),
        _key("fields.whitelist", LIST, "", MEDIUM, LONG, "Fields Whitelist",
             "Fields of the value to write; empty: all. Key fields are always written."),
        _key("replace.null.with.default", B, True, MEDIUM, SHORT, "Replace Null With Default",
             "Whether null in a field with a default value is written as the default."),
        _key("date.timezone", S, "DB_TIMEZONE", MEDIUM, MID, "Date Time Zone",
             "Time zone of dates in DATE columns: DB_TIMEZONE (the one of db.timezone) or UTC.",
             **_choice(("DB_TIMEZONE", "UTC"))),
        _key("date.calendar.system", S, "LEGACY", LOW, MID, "Date Calendar System",
             "How days before October 15, 1582 are counted: LEGACY (Julian, like Java) or PROLEPTIC_GREGORIAN.",
             **_choice(("LEGACY", "PROLEPTIC_GREGORIAN"))),
        _key("timestamp.fields.list", LIST, "", MEDIUM, LONG, "Timestamp Fields",
             "Fields of the value, int64 or text, that hold timestamps in the unit of timestamp.precision.mode; written as "
             "timestamps."),
        _key("timestamp.precision.mode", S, "microseconds", MEDIUM, MID, "Timestamp Precision Mode",
             "Unit of timestamp.fields.list: microseconds or nanoseconds.",
             **_choice(("microseconds", "nanoseconds"))),
        _key("string.output.value.column.name", S, "record_value", LOW, MID, "Column For Text Values",
             "Column for values that are text instead of a struct.", validator=NonEmpty()),
        # DDL
        _key("auto.create", B, False, MEDIUM, SHORT, "Auto-Create", "Whether a missing table is created from the schema."),
        _key("auto.evolve", B, False, MEDIUM, SHORT, "Auto-Evolve",
             "Whether missing columns are added. Their fields must be optional or have a default. Existing columns are not "
             "changed or dropped."),
        _key("quote.sql.identifiers", S, "always", MEDIUM, MID, "Quote Identifiers",
             "Whether names are quoted in SQL: always or never.", validator=QuoteMode(),
             recommender=SuggestedValues(("always", "never"))),
        _key("mssql.use.merge.holdlock", B, True, LOW, SHORT, "SQL Server - Use HOLDLOCK In MERGE",
             "Whether upserts into SQL Server use HOLDLOCK, without which two tasks may conflict on a new key."),
        # Retries
        _key("max.retries", N, 10, MEDIUM, SHORT, "Maximum Retries",
             "Maximum number of consecutive retries of a batch after a lost connection or a temporary error (a deadlock, a "
             "restart).",
             validator=at_least(0)),
        _key("retry.backoff.ms", N, 3000, MEDIUM, SHORT, "Retry Backoff (millis)", "Time to wait before each retry.",
             validator=at_least(0)),
        _key("trim.sensitive.log", B, False, LOW, SHORT, "Trim Sensitive Log",
             "Whether messages about errant records hide the database's message, which may contain values."),
    )
}  # fmt: skip

_GROUPS: Mapping[ConnectorFlavor, Mapping[str, tuple[str, ...]]] = {
    ConnectorFlavor.AIVEN: {
        "Database": (
            "connection.url", "connection.user", "connection.password", "db.timezone", "dialect.name", "sql.quote.identifiers",
        ),
        "Writes": ("insert.mode", "batch.size", "delete.enabled"),
        "Data Mapping": (
            "table.name.format", "table.name.normalize", "topics.to.tables.mapping", "pk.mode", "pk.fields", "fields.whitelist",
        ),
        "DDL Support": ("auto.create", "auto.evolve"),
        "Retries": ("max.retries", "retry.backoff.ms"),
    },
    ConnectorFlavor.CONFLUENT: {
        "Connection": (
            "connection.url", "connection.user", "connection.password", "jdbc.credentials.provider.class", "dialect.name",
            "connection.attempts", "connection.backoff.ms",
        ),
        "Writes": ("insert.mode", "batch.size", "delete.enabled", "table.types", "replace.null.with.default"),
        "Data Mapping": (
            "table.name.format", "pk.mode", "pk.fields", "fields.whitelist", "db.timezone", "date.timezone",
            "date.calendar.system", "timestamp.precision.mode", "timestamp.fields.list", "string.output.value.column.name",
        ),
        "DDL Support": ("auto.create", "auto.evolve", "quote.sql.identifiers", "mssql.use.merge.holdlock"),
        "Retries": ("max.retries", "retry.backoff.ms", "trim.sensitive.log"),
    },
}  # fmt: skip
_SHOWN: Mapping[ConnectorFlavor, Mapping[str, str]] = {
    ConnectorFlavor.AIVEN: {"delete.enabled": "Delete enabled"},
    ConnectorFlavor.CONFLUENT: {"db.timezone": "DB Time Zone"},
}
_OTHERS = "More"


def config_def(flavor: ConnectorFlavor) -> ConfigDef:
    """Builds the ConfigDef. Each call returns a new one, because callers may add keys."""
    table = ConfigDef()
    ordered = [(group, order, name) for group, names in _GROUPS[flavor].items() for order, name in enumerate(names, 1)]
    own = {name for _, _, name in ordered}
    ordered += [(_OTHERS, order, name) for order, name in enumerate((name for name in _KEYS if name not in own), 1)]
    for group, order, name in ordered:
        key = _KEYS[name]
        table.add(replace(key, group=group, order=order, display_name=_SHOWN[flavor].get(name, key.display_name)))
    return table


@dataclass(frozen=True, slots=True)
class SinkWriterConfig:
    """How rows are written."""

    connection: ConnectionSettings
    insert_mode: InsertMode = InsertMode.INSERT
    write: WriteOptions = field(default_factory=WriteOptions)
    batch_rows: int = 3000
    """Maximum number of records per statement."""
    creates_tables: bool = False
    adds_columns: bool = False
    table_types: frozenset[str] | None = None
    """Types of tables that may be written to (TABLE, VIEW, ...); None: all."""
    max_retries: int = 10
    """Consecutive retries of a batch after the connection was lost."""
    retry_backoff_ms: int = 3000
    tolerates_errors: bool = False
    """``errors.tolerance=all``: the other records of a batch are written."""
    shows_values_in_errors: bool = True
    """Whether error messages include the database's message, which often contains values."""
    uses_semantic_types: bool = False
    """Whether Debezium's schema names (``io.debezium.time.MicroTimestamp``) determine types of new columns."""
    create_setting: str = "auto.create=true"
    """Setting that creates tables, for messages."""
    evolve_setting: str = "auto.evolve=true"
    """Setting that adds columns, for messages."""
    retries_key: str = "max.retries"
    """Key of ``max_retries``, for messages."""


_OWN_CONNECTION_KEYS = frozenset(
    ("connection.url", "connection.user", "connection.password", "connection.attempts", "connection.backoff.ms")
)
_DEFAULT_PROVIDER = "DefaultJdbcCredentialsProvider"
_UNIT_NS = {"microseconds": 1000, "nanoseconds": 1}


def parse_sink_config(config: Mapping[str, str], flavor: ConnectorFlavor) -> tuple[SinkWriterConfig, JdbcSinkPlannerConfig]:
    """Parses a configuration. Raises ConfigError for the first invalid key or conflict."""
    v = config_def(flavor).parse(config)
    for key, problem in find_key_conflicts(v, config, flavor):
        raise ConfigError(problem, key=key)
    zone = parse_zone("db.timezone", v["db.timezone"])
    settings = SinkWriterConfig(
        connection=ConnectionSettings(
            parse_target(v, config),
            quotes=_parse_quotes(v, config),
            attempts=v["connection.attempts"],
            backoff_ms=v["connection.backoff.ms"],
            statement_timeout_ms=v["statement.timeout.ms"],
            pool_size=1,
        ),
        insert_mode=_parse_insert_mode(v),
        write=WriteOptions(
            zone=zone,
            date_zone=zone if v["date.timezone"].upper() == "DB_TIMEZONE" else parse_zone("date.timezone", "UTC"),
            calendar=Calendar(v["date.calendar.system"].upper()),
            null_as_default=v["replace.null.with.default"],
            string_timestamps=frozenset(v["timestamp.fields.list"]),
            timestamp_unit_ns=_UNIT_NS[v["timestamp.precision.mode"].lower()],
            merge_holds_lock=v["mssql.use.merge.holdlock"],
            strict=is_strict(config),
        ),
        # Confluent's connector accepts 0 and writes each record by itself.
        batch_rows=max(1, v["batch.size"]),
        creates_tables=v["auto.create"],
        adds_columns=v["auto.evolve"],
        table_types=_parse_table_types(v, config, flavor),
        max_retries=v["max.retries"],
        retry_backoff_ms=v["retry.backoff.ms"],
        tolerates_errors=(config.get("errors.tolerance") or "none").strip() == "all",
        shows_values_in_errors=not v["trim.sensitive.log"],
    )
    planner_config = JdbcSinkPlannerConfig(
        connector=config.get("name") or "",
        fields=FieldConfig(
            key_mode=_parse_key_mode(v),
            key_fields=tuple(v["pk.fields"]),
            key_fields_by_topic=_parse_key_fields_by_topic(config),
            whitelist=frozenset(v["fields.whitelist"]),
            text_column=v["string.output.value.column.name"].strip(),
            null_as_default=v["replace.null.with.default"],
        ),
        tables=TableNaming(
            v["table.name.format"].strip(),
            v["table.name.normalize"],
            parse_topic_mapping("topics.to.tables.mapping", v["topics.to.tables.mapping"]),
        ),
        deletes=v["delete.enabled"],
    )
    return settings, planner_config


def parse_target(values: Mapping[str, Any], config: Mapping[str, str]) -> ConnectionTarget:
    """Parses the connection target. Raises ConfigError."""
    properties = {
        key.removeprefix("connection."): value
        for key, value in config.items()
        if key.startswith("connection.") and key not in _OWN_CONNECTION_KEYS
    }
    password = values["connection.password"]
    target = parse_connection_url(
        values["connection.url"], values["connection.user"], password.value if password else None, properties
    )
    check_dialect(values["dialect.name"].strip(), target.url.get_backend_name())
    return target


def find_key_conflicts(values: Mapping[str, Any], config: Mapping[str, str], flavor: ConnectorFlavor) -> list[tuple[str, str]]:
    """Returns conflicts between valid keys as (key, message). Invalid keys are None in ``values``."""
    found: list[tuple[str, str]] = []
    key_mode = _parse_key_mode(values) if values["pk.mode"] else None
    if values["delete.enabled"] and key_mode not in (KeyMode.RECORD_KEY, None):
        text = {
            ConnectorFlavor.AIVEN: "Delete support only works with pk.mode=record_key",
            ConnectorFlavor.CONFLUENT: "Deletes are only supported for pk.mode record_key",
        }
        found.append(("delete.enabled", text[flavor]))
    if key_mode is KeyMode.NONE and values["insert.mode"]:
        mode = _parse_insert_mode(values)
        if mode is not InsertMode.INSERT:
            found.append(
                (
                    "pk.mode",
                    f"Write in {mode.value.upper()} mode requires key field names to be known, check the primary key "
                    "configuration: pk.mode=record_key, record_value or kafka",
                )
            )
    found += _key_field_problems(values, config, key_mode, flavor)
    if values["fields.whitelist"] and (excluded := set(values["timestamp.fields.list"] or ()) - set(values["fields.whitelist"])):
        found.append(("timestamp.fields.list", f"{', '.join(sorted(excluded))}: excluded by fields.whitelist"))
    provider = values["jdbc.credentials.provider.class"]
    if provider and not provider.endswith(_DEFAULT_PROVIDER):
        text_ = (
            f"{provider} cannot be used here; write connection.user and connection.password with a configuration provider "
            "(${file:...}, ${env:...}, ${directory:...})"
        )
        found.append(("jdbc.credentials.provider.class", text_))
    return found


def _key_field_problems(
    values: Mapping[str, Any], config: Mapping[str, str], key_mode: KeyMode | None, flavor: ConnectorFlavor
) -> list[tuple[str, str]]:
    given = values["pk.fields"] or []
    if flavor is ConnectorFlavor.AIVEN and key_mode is KeyMode.NONE and given:
        return [("pk.fields", "Primary key fields should not be set when pkMode is 'none'.")]
    if flavor is ConnectorFlavor.AIVEN and key_mode is KeyMode.KAFKA and len(given) != 3:
        return [
            ("pk.fields", "Primary key fields must be set with three fields (topic, partition, offset) when pkMode is 'kafka'.")
        ]
    found: list[tuple[str, str]] = []
    if key_mode is KeyMode.KAFKA:
        for names in (given, *_parse_key_fields_by_topic(config).values()):
            if len(names) not in (0, 3):
                text = (
                    f"PK mode is KAFKA so there should either be no field names defined for defaults [{', '.join(COORDINATES)}] "
                    f"to be applicable, or exactly 3, defined fields are: [{', '.join(names)}]"
                )
                found.append(("pk.fields", text))
    twice = sorted({name for name in given if list(given).count(name) > 1})
    if twice:
        found.append(("pk.fields", f"{', '.join(twice)}: duplicate"))
    return found


def _parse_key_fields_by_topic(config: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {
        key.removeprefix(PK_FIELDS_OF): tuple(parse_value(key, value, ConfigType.LIST))
        for key, value in config.items()
        if key.startswith(PK_FIELDS_OF)
    }


def _parse_key_mode(values: Mapping[str, Any]) -> KeyMode:
    return KeyMode(values["pk.mode"].lower())


def _parse_insert_mode(values: Mapping[str, Any]) -> InsertMode:
    mode = values["insert.mode"].lower()
    # Aiven's multi is an INSERT of several rows; every insert is written that way here.
    return InsertMode.INSERT if mode == "multi" else InsertMode(mode)


def _parse_table_types(values: Mapping[str, Any], config: Mapping[str, str], flavor: ConnectorFlavor) -> frozenset[str] | None:
    if "table.types" in config:
        return frozenset(name.upper() for name in values["table.types"])
    return None if flavor is ConnectorFlavor.AIVEN else frozenset(("TABLE", "PARTITIONED TABLE"))


def _parse_quotes(values: Mapping[str, Any], config: Mapping[str, str]) -> bool:
    """Returns whether names are quoted: Confluent's key if set, otherwise Aiven's, which has the same default."""
    if "quote.sql.identifiers" in config:
        return bool(values["quote.sql.identifiers"].lower() == "always")
    return bool(values["sql.quote.identifiers"])
