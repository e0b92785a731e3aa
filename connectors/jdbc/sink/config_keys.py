"""The keys of the sink: those of the Confluent and the Aiven connector, and ours.

Both classes take the keys of both. What validation shows of a key that an original has (group, order, width, display name,
importance, default) is what the original shows; the others follow in a group of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from connect.config.definition import NO_DEFAULT, ConfigDef, ConfigKey, ConfigType, Importance, Width
from connect.config.validators import NonEmpty, at_least
from connect.errors import ConfigError
from connect.suggestions import did_you_mean
from connectors.jdbc.flavor import Face
from connectors.jdbc.sink.table_names import parse_mapping
from connectors.jdbc.source.config_validators import DIALECTS, Enumerated, QuoteMode, Suggested, ZoneName

PK_FIELDS_OF = "pk.fields."
"""Begins the keys that name the key fields of one topic."""
OPEN_PREFIXES = ("connection.", "jdbc.credentials.provider.", PK_FIELDS_OF)
TABLE_KINDS = ("TABLE", "PARTITIONED TABLE", "VIEW")
STATEMENT_TIMEOUT_MS = 180_000
"""Below max.poll.interval.ms, after which a consumer counts as gone."""


@dataclass(frozen=True, slots=True)
class Enumerator:
    """One of some names, in lower or in upper case, or a list of such."""

    values: Sequence[str]

    def __call__(self, name: str, value: Any) -> None:
        for one in value if isinstance(value, list) else (value,):
            if one is None or not {one, one.lower(), one.upper()} & set(self.values) or one not in (one.lower(), one.upper()):
                hint = did_you_mean(str(one).lower(), (known.lower() for known in self.values))
                hint = hint or f"expected one of {', '.join(self.values)}"
                raise ConfigError.invalid(name, one, f"Invalid enumerator; {hint}")

    def __str__(self) -> str:
        return f"[{', '.join(self.values)}]"


@dataclass(frozen=True, slots=True)
class TopicTables:
    """``topic:table`` entries."""

    def __call__(self, name: str, value: Any) -> None:
        if value is not None:
            parse_mapping(name, value)

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


_KEYS: dict[str, ConfigKey] = {
    key.name: key
    for key in (
        # Database
        _key("connection.url", S, NO_DEFAULT, HIGH, LONG, "JDBC URL",
             "The database: a JDBC URL (jdbc:postgresql://host:5432/shop) or one of SQLAlchemy (postgresql+psycopg2://host/shop).",
             validator=NonEmpty()),
        _key("connection.user", S, None, HIGH, MID, "JDBC User", "User of the database."),
        _key("connection.password", P, None, HIGH, MID, "JDBC Password", "Password of the user."),
        _key("connection.attempts", N, 3, LOW, SHORT, "JDBC connection attempts",
             "How many times in a row connecting is tried before a batch counts as failed (see max.retries).",
             validator=at_least(1)),
        _key("connection.backoff.ms", L, 10_000, LOW, SHORT, "JDBC connection backoff in milliseconds",
             "The wait between tries to connect.", validator=at_least(0)),
        _key("jdbc.credentials.provider.class", S, None, LOW, LONG, "JDBC Credentials Provider Implementation",
             "Taken when it is the default provider (user and password of the configuration). Other sources of credentials "
             "are configuration providers here: ${file:...}, ${env:...}."),
        _key("db.timezone", S, "UTC", MEDIUM, MID, "DB time zone",
             "Time zone of dates and timestamps in columns that have none.", validator=ZoneName()),
        _key("dialect.name", S, "", LOW, MID, "Database Dialect",
             "Taken from configurations of the originals and checked against connection.url, which decides.",
             validator=Enumerated(DIALECTS, empty=True), recommender=Suggested(DIALECTS)),
        _key("sql.quote.identifiers", B, True, LOW, SHORT, "Quote SQL Identifiers",
             "Aiven's name for quote.sql.identifiers: true is always, false is never."),
        _key("statement.timeout.ms", L, STATEMENT_TIMEOUT_MS, LOW, SHORT, "Statement Timeout (ms)",
             "How long one statement may take, where the database can tell; 0: no limit. Keep it below the consumer's "
             "max.poll.interval.ms.", validator=at_least(0)),
        # Writes
        _key("insert.mode", S, "insert", HIGH, MID, "Insert Mode",
             "What is done with a record. insert (and multi, Aiven's name for its multi-row form): a new row. upsert: a new row, "
             "or new values for the row of its key. update: new values for the row of its key, if there is one.",
             validator=Enumerator(("insert", "multi", "upsert", "update")),
             recommender=Suggested(("insert", "multi", "upsert", "update"))),
        _key("batch.size", N, 3000, MEDIUM, SHORT, "Batch Size",
             "How many records at most become one statement. How many there are at once is for the consumer to say "
             "(consumer.override.max.poll.records).", validator=at_least(0)),
        _key("delete.enabled", B, False, MEDIUM, SHORT, "Enable deletes",
             "Whether a record without a value deletes the row of its key. Needs pk.mode=record_key; without it such a record is "
             "an error."),
        _key("table.types", LIST, "TABLE", LOW, MID, "Table Types",
             "Kinds of table that may be written to: TABLE, PARTITIONED TABLE, VIEW. When it is not set, partitioned tables may "
             "be as well (with Aiven's connector, which lacks the key, all).", validator=Enumerator(TABLE_KINDS),
             recommender=Suggested(TABLE_KINDS)),
        # Data Mapping
        _key("table.name.format", S, "${topic}", MEDIUM, LONG, "Table Name Format",
             "Name of a topic's table; ${topic} stands for the topic. A dot separates schema and table: shop.${topic}."),
        _key("table.name.normalize", B, False, MEDIUM, LONG, "Table Name Normalize",
             "Whether every character of the table's name but letters, digits and _ becomes _."),
        _key("topics.to.tables.mapping", LIST, None, MEDIUM, LONG, "Topics To Tables Mapping",
             "topic:table,topic:table instead of table.name.format; a topic that is not in it has no table then.",
             validator=TopicTables()),
        _key("pk.mode", S, "none", HIGH, MID, "Primary Key Mode",
             "Where the primary key comes from. none: there is none. kafka: topic, partition and offset of the record. "
             "record_key: fields of the record's key, or the key itself. record_value: fields of the value.",
             validator=Enumerator(("none", "kafka", "record_key", "record_value")),
             recommender=Suggested(("none", "kafka", "record_key", "record_value"))),
        _key("pk.fields", LIST, "", MEDIUM, LONG, "Primary Key Fields",
             "Fields of the key; empty is all. With pk.mode=kafka names for three columns "
             "(__connect_topic,__connect_partition,__connect_offset), with a primitive key the name of its column. "
             "pk.fields.<topic> says it for one topic."),
        _key("fields.whitelist", LIST, "", MEDIUM, LONG, "Fields Whitelist",
             "Fields of the value to write; empty is all. Those of the key are always written."),
        _key("replace.null.with.default", B, True, MEDIUM, SHORT, "Replace Null With Default",
             "Whether a null in a field with a default value is written as that."),
        _key("date.timezone", S, "DB_TIMEZONE", MEDIUM, MID, "Date Time Zone",
             "Time zone of dates in DATE columns: DB_TIMEZONE (that of db.timezone) or UTC.",
             validator=Enumerator(("DB_TIMEZONE", "UTC")), recommender=Suggested(("DB_TIMEZONE", "UTC"))),
        _key("date.calendar.system", S, "LEGACY", LOW, MID, "Date Calendar System",
             "How days before 15 October 1582 are counted: LEGACY (Julian, as Java does) or PROLEPTIC_GREGORIAN.",
             validator=Enumerator(("LEGACY", "PROLEPTIC_GREGORIAN")), recommender=Suggested(("LEGACY", "PROLEPTIC_GREGORIAN"))),
        _key("timestamp.fields.list", LIST, "", MEDIUM, LONG, "Timestamp Fields",
             "Fields of the value, int64 or text, that hold timestamps in units of timestamp.precision.mode; written as such."),
        _key("timestamp.precision.mode", S, "microseconds", MEDIUM, MID, "Timestamp Precision Mode",
             "Unit of timestamp.fields.list: microseconds or nanoseconds.",
             validator=Enumerator(("microseconds", "nanoseconds")), recommender=Suggested(("microseconds", "nanoseconds"))),
        _key("string.output.value.column.name", S, "record_value", LOW, MID, "Column For Text Values",
             "The column that takes a value that is text and no struct.", validator=NonEmpty()),
        # DDL
        _key("auto.create", B, False, MEDIUM, SHORT, "Auto-Create", "Whether a missing table is created from the schema."),
        _key("auto.evolve", B, False, MEDIUM, SHORT, "Auto-Evolve",
             "Whether columns that are missing are added. Their fields must be optional or have a default; nothing is changed or "
             "dropped."),
        _key("quote.sql.identifiers", S, "always", MEDIUM, MID, "Quote Identifiers",
             "Whether names are quoted in SQL: always or never.", validator=QuoteMode(),
             recommender=Suggested(("always", "never"))),
        _key("mssql.use.merge.holdlock", B, True, LOW, SHORT, "SQL Server - Use HOLDLOCK In MERGE",
             "Whether upserts into SQL Server take HOLDLOCK, without which two tasks may collide over a new key."),
        # Retries
        _key("max.retries", N, 10, MEDIUM, SHORT, "Maximum Retries",
             "How often in a row a batch is tried again after the database was lost or asked for it (a deadlock, a restart).",
             validator=at_least(0)),
        _key("retry.backoff.ms", N, 3000, MEDIUM, SHORT, "Retry Backoff (millis)", "The wait before each.",
             validator=at_least(0)),
        _key("trim.sensitive.log", B, False, LOW, SHORT, "Trim Sensitive Log",
             "Whether messages about refused records leave out the database's own words, which may have values in them."),
    )
}  # fmt: skip

_GROUPS: Mapping[Face, Mapping[str, tuple[str, ...]]] = {
    Face.AIVEN: {
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
    Face.CONFLUENT: {
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
_SHOWN: Mapping[Face, Mapping[str, str]] = {
    Face.AIVEN: {"delete.enabled": "Delete enabled"},
    Face.CONFLUENT: {"db.timezone": "DB Time Zone"},
}
_OTHERS = "More"


def config_def(face: Face) -> ConfigDef:
    """The table. Built anew on each call, for a ConfigDef can be added to."""
    table = ConfigDef()
    ordered = [(group, order, name) for group, names in _GROUPS[face].items() for order, name in enumerate(names, 1)]
    own = {name for _, _, name in ordered}
    ordered += [(_OTHERS, order, name) for order, name in enumerate((name for name in _KEYS if name not in own), 1)]
    for group, order, name in ordered:
        key = _KEYS[name]
        table.add(replace(key, group=group, order=order, display_name=_SHOWN[face].get(name, key.display_name)))
    return table
