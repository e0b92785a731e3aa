"""Config keys of the JDBC source: those of the Confluent and the Aiven connector, and Sluice's own.

Both flavors accept all keys, with their own defaults. Validation shows a connector's keys with the same order, display name,
importance and dependents as the original connector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from connect.config.definition import NO_DEFAULT, ConfigDef, ConfigKey, ConfigType, Importance, Recommender, Width
from connect.config.validators import at_least, one_of
from connect.strict import STRICT_KEY
from connectors.jdbc.config_validators import (
    DIALECTS,
    JavaRegexList,
    ModeVisibility,
    NameChoice,
    QuoteMode,
    SnapshotChunks,
    SuggestedValues,
    TextPattern,
    TimeZoneName,
    TopicFormat,
    UnsetScale,
)
from connectors.jdbc.flavor import ConnectorFlavor

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
             "JDBC URL (jdbc:postgresql://host:5432/shop) or SQLAlchemy URL (postgresql+psycopg2://host/shop) of the database.",
             dependents=("table.whitelist", "table.blacklist")),
        _key("connection.user", S, None, HIGH, MID, "JDBC User", "Database user."),
        _key("connection.password", P, None, HIGH, MID, "JDBC Password", "Password of the database user."),
        _key("connection.attempts", N, 3, LOW, SHORT, "JDBC connection attempts",
             "Number of consecutive failed connection attempts after which the task fails.", validator=at_least(1)),
        _key("connection.backoff.ms", L, 10_000, LOW, SHORT, "JDBC connection backoff in milliseconds",
             "Time to wait between connection attempts.", validator=at_least(0)),
        _key("jdbc.credentials.provider.class", S, None, LOW, LONG, "JDBC Credentials Provider Implementation",
             "Accepts only the default provider (user and password of the configuration). For other credentials use "
             "configuration providers: ${file:...}, ${env:...}."),
        _key("table.whitelist", LIST, "", MEDIUM, LONG, "Table Whitelist",
             "Tables to read; all others are ignored. Exact names, bare or qualified (public.orders). Cannot be combined with "
             "table.blacklist."),
        _key("table.blacklist", LIST, "", MEDIUM, LONG, "Table Blacklist",
             "Tables to ignore; all others are read. Cannot be combined with table.whitelist."),
        _key("table.include.list", LIST, "", MEDIUM, LONG, "Table Include List",
             "Regular expressions. A table is read if one of them matches its whole qualified name (public.orders).",
             validator=JavaRegexList()),
        _key("table.exclude.list", LIST, "", MEDIUM, LONG, "Table Exclude List",
             "Regular expressions. Tables of table.include.list that match one of them are ignored.",
             validator=JavaRegexList()),
        _key("catalog.pattern", S, None, MEDIUM, SHORT, "Catalog pattern",
             "Pattern of catalogs to search for tables: % matches any text, _ one character. Empty: tables without a catalog."),
        _key("schema.pattern", S, None, MEDIUM, SHORT, "Schema pattern",
             "Pattern of schemas to search for tables: % matches any text, _ one character. Empty: tables without a schema."),
        _key("numeric.precision.mapping", B, False, LOW, SHORT, "Map Numeric Values By Precision (deprecated)",
             "Deprecated: true means numeric.mapping=precision_only, unless numeric.mapping is set."),
        _key("numeric.mapping", S, None, LOW, SHORT, "Map Numeric Values, Integral or Decimal, By Precision and Scale",
             "How NUMERIC columns are converted. none: Connect's Decimal. precision_only: integers if the scale is 0 and they "
             "fit. best_fit: also float64 for up to 18 digits. best_fit_eager_double: float64 for every scale above 0.",
             validator=NameChoice(("none", "precision_only", "best_fit", "best_fit_eager_double")),
             recommender=SuggestedValues(("none", "precision_only", "best_fit"))),
        _key("numeric.unset.scale", S, "0", LOW, SHORT, "Scale of Numbers Without One",
             "How PostgreSQL's numeric columns without precision and scale are read. A number from 0 to 127: Connect's Decimal "
             "with this scale; values with more decimal places are an error (0, as in Confluent's connector: only whole "
             "numbers). double: float64, rounded. string: the digits.",
             validator=UnsetScale()),
        _key("table.names.qualify", B, True, LOW, SHORT, "Qualify table names",
             "Whether queries name tables with their schema. false: bare names, which the database resolves (search path)."),
        _key("dialect.name", S, "", LOW, MID, "Database Dialect",
             "Checked against connection.url, which determines the dialect.",
             validator=NameChoice(DIALECTS, empty=True), recommender=SuggestedValues(DIALECTS)),
        _key("sql.quote.identifiers", B, True, LOW, SHORT, "Quote SQL Identifiers",
             "Aiven's name of quote.sql.identifiers: true is always, false is never."),
        _key("transaction.isolation.mode", S, "DEFAULT", LOW, MID, "Transaction Isolation Mode",
             "Isolation level of the transactions that read.", validator=one_of(*ISOLATIONS, ignore_case=True),
             recommender=SuggestedValues(ISOLATIONS)),
        _key("statement.timeout.ms", L, 0, LOW, SHORT, "Statement Timeout (ms)",
             "Maximum duration of a statement, if the database supports it; 0: no limit. A query that takes longer fails the "
             "task.",
             validator=at_least(0)),
        # Mode
        _key("mode", S, NO_DEFAULT, HIGH, MID, "Table Loading Mode",
             "bulk: all rows at each poll. incrementing: rows with a higher value than the last one. timestamp: rows with a "
             "later timestamp than the last one. timestamp+incrementing: by timestamp, and by value among equal timestamps.",
             dependents=("incrementing.column.name", "timestamp.column.name", "validate.non.null")),
        _key("incrementing.column.name", S, "", MEDIUM, MID, "Incrementing Column Name",
             "Column with strictly increasing values; not nullable. Empty: the table's auto-increment column.",
             recommender=ModeVisibility()),
        _key("incrementing.column.mapping", LIST, "", MEDIUM, MID, "Incrementing column mapping per table",
             "Per table: <regex>:<column>,<regex>:<column>. Each regex must match the whole qualified name of a table."),
        _key("timestamp.column.name", LIST, "", MEDIUM, MID, "Timestamp Column Name",
             "Columns with the time of a row's last change. The first one that is not null counts (COALESCE).",
             recommender=ModeVisibility()),
        _key("timestamp.columns.mapping", LIST, "", MEDIUM, MID, "Timestamp columns mapping per table",
             "Per table: <regex>:[<column>|<column>],<regex>:[<column>]."),
        _key("validate.non.null", B, True, LOW, SHORT, "Validate Non Null",
             "Whether a nullable incrementing column, or only nullable timestamp columns, fail the task. Rows with null there "
             "are never read.", recommender=ModeVisibility()),
        _key("query", S, "", MEDIUM, SHORT, "Query",
             "A SELECT (or WITH ... SELECT) to run instead of reading tables. In incremental modes WHERE and ORDER BY are "
             "appended; wrap a query that has its own: SELECT * FROM (...) t."),
        _key("query.masked", P, None, MEDIUM, SHORT, "Query (masked)", "The same as query, but never shown."),
        _key("query.suffix", S, "", LOW, SHORT, "Query Suffix",
             "Appended to every query, after ORDER BY: LIMIT 1000, FOR UPDATE. In timestamp mode a LIMIT can lose rows with "
             "equal timestamps."),
        _key("query.retry.attempts", N, -1, LOW, SHORT, "Query Retry Attempts",
             "Maximum number of consecutive failures of a query for temporary reasons; 0 or less: no limit."),
        _key("timestamp.initial", L, None, LOW, MID, "Unix time value of initial timestamp",
             "If no offset is stored, read only rows after this time (ms since 1970 UTC); -1: after the current time."),
        _key("timestamp.initial.ms", L, 0, MEDIUM, MID, "Initial timestamp (ms since epoch, can be negative)",
             "Aiven's name of timestamp.initial; here -1 is an ordinary time."),
        _key("incrementing.initial", L, -1, MEDIUM, MID, "Incrementing Column Initial Value",
             "If no offset is stored, read only rows with higher values."),
        _key("snapshot.chunks", S, "off", MEDIUM, MID, "Chunks of Large Tables",
             "How a large table is read for the first time (in bulk mode: each time). off: by one task, in order. auto: tables "
             "with 200,000 rows or more in chunks of key ranges, by all tasks. A number: in chunks of this many rows.",
             validator=SnapshotChunks()),
        # Connector
        _key("table.types", LIST, "TABLE", LOW, MID, "Table Types",
             "Types of tables to read: TABLE, VIEW, PARTITIONED TABLE, SYSTEM TABLE, GLOBAL TEMPORARY, LOCAL TEMPORARY, ALIAS, "
             "SYNONYM."),
        _key("poll.interval.ms", N, 5_000, HIGH, SHORT, "Poll Interval (ms)",
             "Time to wait between the end of a table's query and the next one.", validator=at_least(0)),
        _key("batch.max.rows", N, 1_000, LOW, SHORT, "Max Rows Per Batch",
             "Maximum number of records per poll. If not set, the fastest batch size is used (5,000).",
             validator=at_least(1)),
        _key("max.buffer.size", N, 0, LOW, SHORT, "Maximum Buffer Size",
             "Accepted without effect: rows are read when they are needed."),
        _key("poll.linger.ms", L, 5_000, LOW, SHORT, "Poll Linger (ms)",
             "Accepted without effect: a poll without rows returns within a second."),
        _key("table.poll.interval.ms", L, 60_000, LOW, SHORT, "Metadata Change Monitoring Interval (ms)",
             "How often tables are listed. Tasks are reassigned when the list changes.", validator=at_least(1)),
        _key("table.monitoring.startup.polling.limit.ms", L, 10_000, LOW, SHORT,
             "Max time to wait for table monitoring to complete",
             "How long a start waits for the first list of tables.", validator=at_least(1)),
        _key("topic.prefix", S, NO_DEFAULT, HIGH, MID, "Topic Prefix",
             "Topics are named <topic.prefix><table>; the rows of a query go to topic <topic.prefix>.",
             validator=TextPattern(r"[a-zA-Z0-9._-]{0,249}", "249 characters at most, of letters, digits, '.', '_' and '-'")),
        _key("topic.name.format", S, "${table}", LOW, MID, "Topic Name Format",
             "The part of a table's topic after topic.prefix. ${table}, ${schema} and ${catalog} are the parts of its name. "
             "With ${schema}.${table}, tables with the same name in two schemas have separate topics.",
             validator=TopicFormat()),
        _key("timestamp.delay.interval.ms", L, 0, HIGH, MID, "Delay Interval (ms)",
             "Minimum age of a row by the database's clock before it is read, so that transactions that started earlier can "
             "commit.", validator=at_least(0)),
        _key("db.timezone", S, "UTC", MEDIUM, MID, "DB time zone",
             "Time zone of timestamp columns without a time zone.", validator=TimeZoneName()),
        _key("quote.sql.identifiers", S, None, MEDIUM, MID, "Quote Identifiers",
             "Whether names are quoted in SQL: always or never.", validator=QuoteMode(),
             recommender=SuggestedValues(("always", "never"))),
        _key("timestamp.granularity", S, "connect_logical", LOW, MID, "Timestamp granularity for timestamp columns",
             "How TIMESTAMP columns are converted: Connect's Timestamp (milliseconds), or a number or text with micro- or "
             "nanoseconds.",
             validator=one_of(*GRANULARITIES), recommender=SuggestedValues(GRANULARITIES)),
        _key("date.calendar.system", S, "LEGACY", LOW, MID, "Date Calendar System",
             "How days before October 15, 1582 are counted: LEGACY (Julian, like Java) or PROLEPTIC_GREGORIAN.",
             validator=one_of("LEGACY", "PROLEPTIC_GREGORIAN", ignore_case=True)),
        _key("key.columns", S, "", MEDIUM, MID, "Key Columns",
             "Columns of the record key. Empty: records have no key. auto: the primary key. Otherwise column,column for all "
             "tables, or <table>:<column>,<column>;<table>:<column>."),
        _key("key.format", S, "struct", LOW, SHORT, "Key Format",
             "struct: the key has a field per key column. primitive: the key is the value of its only column.",
             validator=one_of("struct", "primitive")),
        _key("unsupported.columns", S, "fail", LOW, SHORT, "Columns of Unsupported Types",
             "What to do with columns of unsupported types. fail: fail with an error that names the column. skip: omit the "
             "column with a warning.",
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
    # Confluent's connector shows these as optional, and rejects empty values.
    ConnectorFlavor.CONFLUENT: {"connection.url": "", "mode": "", "topic.prefix": ""},
}
_OTHERS = "More"
OPEN_PREFIXES = ("connection.", "jdbc.credentials.provider.")


def config_def(flavor: ConnectorFlavor) -> ConfigDef:
    """Builds the ConfigDef. Each call returns a new one, because callers may add keys."""
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
