"""The keys of the source: those of the Confluent and the Aiven connector, with the defaults of whichever was asked for, and ours.

Both classes take the keys of both. What validation shows of a key that an original has (order, display name, importance,
dependents) is what the original shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from connect.config.definition import NO_DEFAULT, ConfigDef, ConfigKey, ConfigType, Importance, Recommender, Width
from connect.config.validators import at_least, one_of
from connect.strict import STRICT_KEY
from connectors.jdbc.flavor import ConnectorFlavor
from connectors.jdbc.source.config_validators import (
    DIALECTS,
    Compiles,
    Enumerated,
    Matches,
    ModeDependents,
    QuoteMode,
    SnapshotChunks,
    Suggested,
    TopicFormat,
    UnsetScale,
    ZoneName,
)

MODES = ("bulk", "timestamp", "incrementing", "timestamp+incrementing")
ISOLATIONS = ("DEFAULT", "READ_UNCOMMITTED", "READ_COMMITTED", "REPEATABLE_READ", "SERIALIZABLE", "SQL_SERVER_SNAPSHOT")
GRANULARITIES = (
    "connect_logical", "micros_long", "micros_string", "micros_iso_datetime_string",
    "nanos_long", "nanos_string", "nanos_iso_datetime_string",
)  # fmt: skip

S, N, L, B, P, LIST = (  # columns of the table below
    ConfigType.STRING, ConfigType.INT, ConfigType.LONG, ConfigType.BOOLEAN, ConfigType.PASSWORD, ConfigType.LIST,
)  # fmt: skip
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
SHORT, MID, LONG = Width.SHORT, Width.MEDIUM, Width.LONG


def _key(
    name: str,
    type: ConfigType,
    default: Any,
    importance: Importance,
    width: Width,
    display_name: str,
    doc: str,
    *,
    validator: Any = None,
    recommender: Recommender | None = None,
    dependents: tuple[str, ...] = (),
) -> ConfigKey:
    return ConfigKey(
        name, type, default, validator, importance, doc,
        width=width, display_name=display_name, recommender=recommender, dependents=dependents,
    )  # fmt: skip


_KEYS: dict[str, ConfigKey] = {
    key.name: key
    for key in (
        # Database
        _key("connection.url", S, NO_DEFAULT, HIGH, LONG, "JDBC URL",
             "The database: a JDBC URL (jdbc:postgresql://host:5432/shop) or one of SQLAlchemy (postgresql+psycopg2://host/shop).",
             dependents=("table.whitelist", "table.blacklist")),
        _key("connection.user", S, None, HIGH, MID, "JDBC User", "User of the database."),
        _key("connection.password", P, None, HIGH, MID, "JDBC Password", "Password of the user."),
        _key("connection.attempts", N, 3, LOW, SHORT, "JDBC connection attempts",
             "How many times in a row connecting may fail before the task fails.", validator=at_least(1)),
        _key("connection.backoff.ms", L, 10_000, LOW, SHORT, "JDBC connection backoff in milliseconds",
             "The wait between tries to connect.", validator=at_least(0)),
        _key("jdbc.credentials.provider.class", S, None, LOW, LONG, "JDBC Credentials Provider Implementation",
             "Taken when it is the default provider (user and password of the configuration). Other sources of credentials "
             "are configuration providers here: ${file:...}, ${env:...}."),
        _key("table.whitelist", LIST, "", MEDIUM, LONG, "Table Whitelist",
             "Tables to read, and no others: names as the database has them, bare or qualified (public.orders). Not together "
             "with table.blacklist."),
        _key("table.blacklist", LIST, "", MEDIUM, LONG, "Table Blacklist",
             "Tables not to read, all others are; not together with table.whitelist."),
        _key("table.include.list", LIST, "", MEDIUM, LONG, "Table Include List",
             "Regular expressions; a table is read when one of them matches its whole qualified name (public.orders).",
             validator=Compiles()),
        _key("table.exclude.list", LIST, "", MEDIUM, LONG, "Table Exclude List",
             "Regular expressions; of the tables that table.include.list names, those that match one are left out.",
             validator=Compiles()),
        _key("catalog.pattern", S, None, MEDIUM, SHORT, "Catalog pattern",
             "Narrows the search for tables: % stands for any text, _ for one character; empty: objects without a catalog."),
        _key("schema.pattern", S, None, MEDIUM, SHORT, "Schema pattern",
             "Narrows the search for tables: % stands for any text, _ for one character; empty: objects without a schema."),
        _key("numeric.precision.mapping", B, False, LOW, SHORT, "Map Numeric Values By Precision (deprecated)",
             "Old: true means numeric.mapping=precision_only, where that is not set."),
        _key("numeric.mapping", S, None, LOW, SHORT, "Map Numeric Values, Integral or Decimal, By Precision and Scale",
             "What a NUMERIC becomes. none: Connect's Decimal. precision_only: integers where the scale is 0 and they fit. "
             "best_fit: also float64 for 18 digits or less. best_fit_eager_double: float64 for every scale above 0.",
             validator=Enumerated(("none", "precision_only", "best_fit", "best_fit_eager_double")),
             recommender=Suggested(("none", "precision_only", "best_fit"))),
        _key("numeric.unset.scale", S, "0", LOW, SHORT, "Scale of Numbers Without One",
             "How PostgreSQL's numeric without a precision is read, which tells no scale. 0 as the originals: whole numbers, any "
             "other value is an error. A number up to 127: Connect's Decimal with so many places, and more are an error. double: "
             "float64, rounded. string: the digits.",
             validator=UnsetScale()),
        _key("table.names.qualify", B, True, LOW, SHORT, "Qualify table names",
             "Whether queries name tables with their schema. false: bare names, found as the database does (search path)."),
        _key("dialect.name", S, "", LOW, MID, "Database Dialect",
             "Taken from configurations of the originals and checked against connection.url, which decides.",
             validator=Enumerated(DIALECTS, empty=True), recommender=Suggested(DIALECTS)),
        _key("sql.quote.identifiers", B, True, LOW, SHORT, "Quote SQL Identifiers",
             "Aiven's name for quote.sql.identifiers: true is always, false is never."),
        _key("transaction.isolation.mode", S, "DEFAULT", LOW, MID, "Transaction Isolation Mode",
             "Isolation of the transactions that read.", validator=one_of(*ISOLATIONS, ignore_case=True),
             recommender=Suggested(ISOLATIONS)),
        _key("statement.timeout.ms", L, 0, LOW, SHORT, "Statement Timeout (ms)",
             "How long one statement may take, where the database can tell; 0: no limit. A query over this fails the task.",
             validator=at_least(0)),
        # Mode
        _key("mode", S, NO_DEFAULT, HIGH, MID, "Table Loading Mode",
             "bulk: everything at each poll. incrementing: rows with a higher number than the last. timestamp: rows with a "
             "later time than the last. timestamp+incrementing: by time, and by number among equal times.",
             dependents=("incrementing.column.name", "timestamp.column.name", "validate.non.null")),
        _key("incrementing.column.name", S, "", MEDIUM, MID, "Incrementing Column Name",
             "The column whose numbers only grow; not nullable. Empty: the table's auto-increment column.",
             recommender=ModeDependents()),
        _key("incrementing.column.mapping", LIST, "", MEDIUM, MID, "Incrementing column mapping per table",
             "Per table: <regex>:<column>,<regex>:<column>; each regex must match the whole qualified name of a table."),
        _key("timestamp.column.name", LIST, "", MEDIUM, MID, "Timestamp Column Name",
             "Columns with the time of a row's last change; of several the first that is not null counts (COALESCE).",
             recommender=ModeDependents()),
        _key("timestamp.columns.mapping", LIST, "", MEDIUM, MID, "Timestamp columns mapping per table",
             "Per table: <regex>:[<column>|<column>],<regex>:[<column>]."),
        _key("validate.non.null", B, True, LOW, SHORT, "Validate Non Null",
             "Whether a task refuses a table whose incrementing column, or all of whose timestamp columns, may be null: rows "
             "with null there are never read.", recommender=ModeDependents()),
        _key("query", S, "", MEDIUM, SHORT, "Query",
             "A SELECT (or WITH ... SELECT) whose rows are read instead of tables. In incremental modes WHERE and ORDER BY are "
             "appended to it: wrap a query that has its own, as SELECT * FROM (...) t."),
        _key("query.masked", P, None, MEDIUM, SHORT, "Query (masked)", "The same as query, but never shown."),
        _key("query.suffix", S, "", LOW, SHORT, "Query Suffix",
             "Appended to every query, after ORDER BY: LIMIT 1000, FOR UPDATE. In timestamp mode a LIMIT can lose rows of equal "
             "times."),
        _key("query.retry.attempts", N, -1, LOW, SHORT, "Query Retry Attempts",
             "How many times in a row a query may fail for a reason that may pass; 0 and below: no limit."),
        _key("timestamp.initial", L, None, LOW, MID, "Unix time value of initial timestamp",
             "Only rows after this time (ms since 1970 UTC), when no offset is stored; -1: from now on."),
        _key("timestamp.initial.ms", L, 0, MEDIUM, MID, "Initial timestamp (ms since epoch, can be negative)",
             "Aiven's name for timestamp.initial; here -1 is a time like any other."),
        _key("incrementing.initial", L, -1, MEDIUM, MID, "Incrementing Column Initial Value",
             "Only rows with a higher number, when no offset is stored."),
        _key("snapshot.chunks", S, "off", MEDIUM, MID, "Chunks of Large Tables",
             "How a large table is read the first time (in bulk mode: each time): off in one piece, by one task, in order; auto "
             "in chunks of key ranges by all tasks when it has 200,000 rows or more; a number: in chunks of so many rows.",
             validator=SnapshotChunks()),
        # Connector
        _key("table.types", LIST, "TABLE", LOW, MID, "Table Types",
             "Kinds of tables to look for: TABLE, VIEW, PARTITIONED TABLE, SYSTEM TABLE, GLOBAL TEMPORARY, LOCAL TEMPORARY, "
             "ALIAS, SYNONYM."),
        _key("poll.interval.ms", N, 5_000, HIGH, SHORT, "Poll Interval (ms)",
             "The wait between the end of one query of a table and the next.", validator=at_least(0)),
        _key("batch.max.rows", N, 1_000, LOW, SHORT, "Max Rows Per Batch",
             "The most records of one poll, when it is set. When it is not, batches are as large as reads fastest (5,000).",
             validator=at_least(1)),
        _key("max.buffer.size", N, 0, LOW, SHORT, "Maximum Buffer Size",
             "Taken, and changes nothing: rows are read when they are asked for."),
        _key("poll.linger.ms", L, 5_000, LOW, SHORT, "Poll Linger (ms)",
             "Taken, and changes nothing: a poll without rows comes back within a second."),
        _key("table.poll.interval.ms", L, 60_000, LOW, SHORT, "Metadata Change Monitoring Interval (ms)",
             "How often the list of tables is looked up; when it differs the tasks are dealt anew.", validator=at_least(1)),
        _key("table.monitoring.startup.polling.limit.ms", L, 10_000, LOW, SHORT,
             "Max time to wait for table monitoring to complete",
             "How long a start waits for the first list of tables.", validator=at_least(1)),
        _key("topic.prefix", S, NO_DEFAULT, HIGH, MID, "Topic Prefix",
             "Topics are called <topic.prefix><table>; the rows of a query go to <topic.prefix> itself.",
             validator=Matches(r"[a-zA-Z0-9._-]{0,249}", "249 characters at most, of letters, digits, '.', '_' and '-'")),
        _key("topic.name.format", S, "${table}", LOW, MID, "Topic Name Format",
             "What follows topic.prefix in the name of a table's topic: ${table}, ${schema} and ${catalog} stand for the parts "
             "of its name. With ${schema}.${table} tables of the same name in two schemas have topics of their own.",
             validator=TopicFormat()),
        _key("timestamp.delay.interval.ms", L, 0, HIGH, MID, "Delay Interval (ms)",
             "Rows are read when their time is so long ago, by the database's clock, so that transactions that began earlier can "
             "end first.", validator=at_least(0)),
        _key("db.timezone", S, "UTC", MEDIUM, MID, "DB time zone",
             "Time zone of timestamps in columns that have none.", validator=ZoneName()),
        _key("quote.sql.identifiers", S, None, MEDIUM, MID, "Quote Identifiers",
             "Whether names are quoted in SQL: always or never.", validator=QuoteMode(),
             recommender=Suggested(("always", "never"))),
        _key("timestamp.granularity", S, "connect_logical", LOW, MID, "Timestamp granularity for timestamp columns",
             "What a TIMESTAMP becomes: Connect's Timestamp, which has milliseconds, or a number or text in micro- or "
             "nanoseconds.",
             validator=one_of(*GRANULARITIES), recommender=Suggested(GRANULARITIES)),
        _key("date.calendar.system", S, "LEGACY", LOW, MID, "Date Calendar System",
             "How days before 15 October 1582 are counted: LEGACY (Julian, as Java does) or PROLEPTIC_GREGORIAN.",
             validator=one_of("LEGACY", "PROLEPTIC_GREGORIAN", ignore_case=True)),
        _key("key.columns", S, "", MEDIUM, MID, "Key Columns",
             "Columns that make the record key. Empty: records have no key. auto: the primary key. Otherwise column,column for "
             "all tables, or <table>:<column>,<column>;<table>:<column>."),
        _key("key.format", S, "struct", LOW, SHORT, "Key Format",
             "struct: the key has a field for each key column. primitive: the key is the value of its one column.",
             validator=one_of("struct", "primitive")),
        _key("unsupported.columns", S, "fail", LOW, SHORT, "Columns of Unsupported Types",
             "A column whose type has no counterpart: fail names it in an error, skip leaves it out with a warning.",
             validator=one_of("fail", "skip")),
        replace(STRICT_KEY, width=SHORT),
    )
}  # fmt: skip

_GROUPS: Mapping[ConnectorFlavor, Mapping[str, tuple[str, ...]]] = {
    ConnectorFlavor.AIVEN: {
        "Database": (
            "connection.url", "connection.user", "connection.password", "connection.attempts", "connection.backoff.ms",
            "table.whitelist", "table.blacklist", "catalog.pattern", "schema.pattern", "numeric.precision.mapping",
            "numeric.mapping", "table.names.qualify", "db.timezone", "dialect.name", "sql.quote.identifiers",
        ),
        "Mode": (
            "mode", "incrementing.column.name", "timestamp.column.name", "validate.non.null", "query", "timestamp.initial.ms",
            "incrementing.initial",
        ),
        "Connector": (
            "table.types", "poll.interval.ms", "batch.max.rows", "table.poll.interval.ms", "topic.prefix",
            "timestamp.delay.interval.ms",
        ),
    },
    ConnectorFlavor.CONFLUENT: {
        "Database": (
            "connection.url", "connection.user", "connection.password", "connection.attempts", "connection.backoff.ms",
            "jdbc.credentials.provider.class", "table.whitelist", "table.blacklist", "table.include.list", "table.exclude.list",
            "catalog.pattern", "schema.pattern", "numeric.precision.mapping", "numeric.mapping", "dialect.name",
        ),
        "Mode": (
            "mode", "incrementing.column.name", "incrementing.column.mapping", "timestamp.column.name",
            "timestamp.columns.mapping", "timestamp.initial", "validate.non.null", "query", "query.masked",
            "quote.sql.identifiers", "query.suffix", "transaction.isolation.mode",
        ),
        "Connector": (
            "table.types", "poll.interval.ms", "batch.max.rows", "max.buffer.size", "poll.linger.ms", "table.poll.interval.ms",
            "table.monitoring.startup.polling.limit.ms", "topic.prefix", "timestamp.delay.interval.ms", "db.timezone",
            "timestamp.granularity", "query.retry.attempts", "date.calendar.system",
        ),
    },
}  # fmt: skip
_DEFAULTS: Mapping[ConnectorFlavor, Mapping[str, Any]] = {
    ConnectorFlavor.AIVEN: {"batch.max.rows": 100},
    # It shows these as not required, and refuses them empty.
    ConnectorFlavor.CONFLUENT: {"connection.url": "", "mode": "", "topic.prefix": ""},
}
_OTHERS = "More"
OPEN_PREFIXES = ("connection.", "jdbc.credentials.provider.")


def config_def(flavor: ConnectorFlavor) -> ConfigDef:
    """The table. Built anew on each call, for a ConfigDef can be added to."""
    table = ConfigDef()
    groups = _GROUPS[flavor]
    ordered = [(group, order, name) for group, names in groups.items() for order, name in enumerate(names, 1)]
    own = {name for _, _, name in ordered}
    ordered += [(_OTHERS, order, name) for order, name in enumerate((name for name in _KEYS if name not in own), 1)]
    for group, order, name in ordered:
        key = replace(_KEYS[name], group=group, order=order)
        if name in _DEFAULTS[flavor]:
            key = replace(key, default=_DEFAULTS[flavor][name])
        if name == "mode":
            key = replace(key, validator=one_of(*(("",) if flavor is ConnectorFlavor.CONFLUENT else ()), *MODES))
            if flavor is ConnectorFlavor.AIVEN:
                key = replace(key, dependents=(*key.dependents, "timestamp.initial.ms", "incrementing.initial"))
        table.add(key)
    return table
