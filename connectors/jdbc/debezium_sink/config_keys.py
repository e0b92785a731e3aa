"""The keys of Debezium's JDBC sink.

Names, defaults, importance, group, order, width and display names are what the original's validation shows (3.6.0.Final). Keys
that it takes and does not show, or that later versions have, follow in a group of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Recommender, Width
from connect.config.validators import at_least
from connect.errors import ConfigError
from connect.java.regex import RegexError, compile_java_regex
from connect.suggestions import did_you_mean
from connectors.jdbc.sink.config_keys import STATEMENT_TIMEOUT_MS
from connectors.jdbc.source.config_validators import Suggested, ZoneName

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
class Choice:
    """One of some names, in any case, refused in the original's words (which it has in its log alone)."""

    values: Sequence[str]

    def __call__(self, name: str, value: Any) -> None:
        if value is None or value.strip().lower() in self.values:
            return
        hint = did_you_mean(value.strip().lower(), self.values, "; ")
        raise ConfigError(
            f"The '{name}' value '{value}' is invalid: Value must be one of {', '.join(self.values)}{hint}", key=name
        )

    def __str__(self) -> str:
        return f"[{', '.join(self.values)}]"


@dataclass(frozen=True, slots=True)
class KnownClass:
    """One of the original's classes: others are Java's to load."""

    values: Sequence[str]

    def __call__(self, name: str, value: Any) -> None:
        if value not in self.values:
            raise ConfigError(
                f"Invalid value {value} for configuration {name}: Class {value} could not be found. Expected one of "
                f"{', '.join(self.values)}; names of your own come from collection.name.format, or from transformations "
                "(RegexRouter for topics, ReplaceField for fields)",
                key=name,
            )

    def __str__(self) -> str:
        return f"[{', '.join(self.values)}]"


@dataclass(frozen=True, slots=True)
class JavaPattern:
    """A regular expression as Java reads it; null is allowed."""

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


def _choice(values: Sequence[str]) -> dict[str, Choice | Recommender]:
    return {"validator": Choice(values), "recommender": Suggested(values)}


# With the original's order in its group: a key and its old name share one.
_SHOWN: tuple[tuple[int, ConfigKey], ...] = (
    (1, _key("connection.url", S, None, HIGH, LONG, "Hostname",
             "The database: a JDBC URL (jdbc:postgresql://host:5432/shop) or one of SQLAlchemy (postgresql+psycopg2://host/shop).")),
    (2, _key("connection.username", S, None, HIGH, SHORT, "User", "User of the database.")),
    (3, _key("connection.password", P, None, HIGH, SHORT, "Password", "Password of the user.")),
    (4, _key("connection.pool.min_size", N, 5, LOW, SHORT, "Connection pool minimum size",
             "Taken, and without effect: each task has one connection.")),
    (5, _key("connection.pool.max_size", N, 32, LOW, SHORT, "Connection pool maximum size",
             "Taken, and without effect: each task has one connection.")),
    (6, _key("connection.pool.timeout", L, 1800, LOW, SHORT, "Connection pool timeout",
             "Taken, and without effect: a connection that was lost is made anew.")),
    (7, _key("insert.mode", S, "insert", LOW, SHORT, "The insertion mode to use",
             "What is done with a row. insert: a new one. upsert: a new one, or new values for the row of its key. update: new "
             "values for the row of its key, if there is one.", **_choice(INSERT_MODES))),
    (8, _key("delete.enabled", B, False, LOW, SHORT, "Controls whether records can be deleted by the connector",
             "Whether delete events and tombstones delete the row of their key; else they are skipped. Needs primary.key.mode "
             "record_key, record_value or record_header.")),
    (9, _key("truncate.enabled", B, False, LOW, SHORT, "Controls whether tables can be truncated by the connector",
             "Whether truncate events empty the table; else they are skipped.")),
    (10, _key("collection.name.format", S, "${topic}", MEDIUM, MID, "A format string for the collection name",
              "Name of a record's table. ${topic} is the topic, with _ for its dots; ${source.table}, ${source.schema}, ... are "
              "fields of a change event's source. A dot separates schema and table.")),
    (10, _key("table.name.format", S, "${topic}", MEDIUM, MID, "A format string for the collection name",
              "Old name of collection.name.format.")),
    (11, _key("primary.key.mode", S, "none", HIGH, SHORT, "Primary key mode",
              "Where the primary key comes from. none: there is none. kafka: topic, partition and offset of the record, in "
              "columns __connect_topic, __connect_partition, __connect_offset. record_key: fields of the record's key. "
              "record_value: fields of the row. record_header: the record's headers.", **_choice(KEY_MODES))),
    (12, _key("primary.key.fields", S, None, LOW, MID, "Comma-separated list of primary key field names",
              "Which fields (or headers) are the key; empty is all. With a key that is no struct the name of its column.")),
    (13, _key("schema.evolution", S, "none", LOW, SHORT, "Controls how schema evolution is handled by the sink connector",
              "basic: missing tables are created, missing columns added. none: they are errors. validate-only: as none, and the "
              "tables of the topics are looked for at the start.", **_choice(EVOLUTIONS))),
    (14, _key("quote.identifiers", B, False, LOW, SHORT,
              "Controls whether table, column, or other identifiers are quoted",
              "Whether names keep their upper and lower case. When false, names are what the database makes of them without "
              "quotes: lower case in PostgreSQL, upper case in Oracle and Db2; names that begin with _ stay as they are. "
              "Reserved words and odd characters are no problem either way.")),
    (15, _key("collection.naming.strategy", C, COLLECTION_NAMING, LOW, LONG, "CollectionNamingStrategy class",
              "DefaultCollectionNamingStrategy (dots of the topic become _) or PassthroughCollectionNamingStrategy (they stay).",
              validator=KnownClass(COLLECTION_NAMING_CLASSES))),
    (15, _key("table.naming.strategy", C, COLLECTION_NAMING, LOW, LONG, "CollectionNamingStrategy class",
              "Old name of collection.naming.strategy.", validator=KnownClass(COLLECTION_NAMING_CLASSES))),
    (16, _key("column.naming.strategy", C, COLUMN_NAMING, LOW, LONG,
              "Name of the strategy class that implements the ColumnNamingStrategy interface",
              "How fields become columns: by their names.", validator=KnownClass(COLUMN_NAMING_CLASSES))),
    (17, _key("collection.table.format", S, "${table}", MEDIUM, LONG, "Format string using table name",
              "Taken, and without effect, as in the original; collection.name.format says it.")),
    (18, _key("use.time.zone", S, "UTC", MEDIUM, SHORT, "The timezone used when inserting temporal values.",
              "Taken, and without effect, as in the original on PostgreSQL and MySQL: times without a zone are written as they "
              "are, instants as such, in UTC where the column has no zone.", validator=ZoneName())),
    (18, _key("database.time_zone", S, "UTC", MEDIUM, SHORT, "The timezone used when inserting temporal values.",
              "Old name of use.time.zone.", validator=ZoneName())),
    (19, _key("dialect.postgres.postgis.schema", S, "public", LOW, LONG,
              "Name of the schema where postgis extension is installed",
              "The schema of PostGIS' types, for columns that are created.")),
    (20, _key("dialect.postgres.unnest.insert.enabled", B, False, MEDIUM, SHORT,
              "Enable UNNEST-based batch inserts for PostgreSQL",
              "Taken, and without effect: a batch is one statement in any case.")),
    (21, _key("dialect.sqlserver.identity.insert", B, False, LOW, SHORT,
              "Allowing to insert explicit value for identity column in table for SQLSERVER.",
              "Not used: set IDENTITY_INSERT is for a session, and the sink does not switch it.")),
    (22, _key("batch.size", N, 500, MEDIUM, SHORT,
              "Specifies how many records to attempt to batch together into the destination table, when possible. You can also "
              "configure the connector\N{RIGHT SINGLE QUOTATION MARK}s underlying consumer\N{RIGHT SINGLE QUOTATION MARK}s "
              "max.poll.records using consumer.override.max.poll.records in the connector configuration.",
              "How many records at most become one statement. How many there are at once is for the consumer to say "
              "(consumer.override.max.poll.records).")),
    (23, _key("field.include.list", LIST, None, MEDIUM, LONG, "Include Fields",
              "The only fields to write, as field or topic:field. Fields of a record's key are left out as well, unless "
              "primary.key.fields names them.")),
    (24, _key("field.exclude.list", LIST, None, MEDIUM, LONG, "Exclude Fields", "Fields to leave out, as field or topic:field.")),
    (25, _key("flush.max.retries", N, 5, LOW, SHORT, "Max retry count",
              "How often in a row a batch is tried again after the database was lost or asked for it (a deadlock, a restart).")),
    (26, _key("flush.retry.delay.ms", L, 1000, LOW, SHORT, "Delay to retry flush", "The wait before each.")),
    (27, _key("connection.restart.on.errors", B, False, LOW, SHORT, "Restart connection on errors",
              "Taken, and without effect: a connection that was lost is made anew, and the batch comes again as a whole.")),
    (28, _key("cloud.events.schema.name.pattern", S, ".*CloudEvents\\.Envelope$", LOW, LONG,
              "CloudEvents messages schema name pattern",
              "Records whose value schema has such a name are CloudEvents: their data is the change event.",
              validator=JavaPattern())),
)  # fmt: skip

_OTHERS: tuple[ConfigKey, ...] = (
    _key("use.reduction.buffer", B, False, MEDIUM, SHORT, "Use the reduction buffer",
         "Taken, and without effect: of the changes of one key in a batch only the last is written in any case, except with "
         "insert.mode=insert."),
    _key("keyed.message.batch.mode", S, "deduplication", MEDIUM, SHORT, "Keyed message batch mode",
         "Taken, and without effect: see use.reduction.buffer.", **_choice(BATCH_MODES)),
    _key("connection.provider", S, None, LOW, LONG, "Connection provider",
         "Taken, and without effect: classes of Java make no connections here."),
    _key("dialect.starrocks.catalog.name", S, None, LOW, LONG, "StarRocks catalog", "Taken, and without effect."),
    _key("enable.sces", B, False, LOW, SHORT, "Shared change event sink",
         "Taken, and without effect: records that cannot be written go to the dead letter queue in any case."),
    _key("unavailable.value.placeholder", S, "__debezium_unavailable_value", LOW, MID, "Unavailable value placeholder",
         "What the source puts in place of a large value that an update did not change, as its key of that name says. A column "
         "with it keeps what it has. The original writes the placeholder; empty does so here."),
    _key("connection.attempts", N, 3, LOW, SHORT, "Connection attempts",
         "How many times in a row connecting is tried before a batch counts as failed (see flush.max.retries).",
         validator=at_least(1)),
    _key("connection.backoff.ms", L, 10_000, LOW, SHORT, "Connection backoff (ms)", "The wait between tries to connect.",
         validator=at_least(0)),
    _key("statement.timeout.ms", L, STATEMENT_TIMEOUT_MS, LOW, SHORT, "Statement timeout (ms)",
         "How long one statement may take, where the database can tell; 0: no limit. Keep it below the consumer's "
         "max.poll.interval.ms.", validator=at_least(0)),
)  # fmt: skip


def config_def() -> ConfigDef:
    """The table. Built anew on each call, for a ConfigDef can be added to."""
    table = ConfigDef()
    for order, key in _SHOWN:
        table.add(replace(key, group="Connector", order=order))
    for order, key in enumerate(_OTHERS, 1):
        table.add(replace(key, group="More", order=order))
    return table
