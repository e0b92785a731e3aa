"""Configuration of the Spark source: keys and typed values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import at_least, one_of
from connect.errors import ConfigError
from connect.suggestions import did_you_mean
from connectors.spark.config import REBASE_IN_READ, SparkConfig, parse_spark_config
from connectors.spark.config_keys import CATALOG, CONF_PREFIX, DELTA, ICEBERG, PARQUET, check_catalog, define_spark_keys
from connectors.spark.masters import is_local
from connectors.spark.s3_settings import S3Settings, read_s3_settings, with_s3a_scheme

QUERY = "query"
FORMATS = (DELTA, ICEBERG, PARQUET, QUERY)
ENVELOPE, FLAT = "envelope", "flat"
SNAPSHOT, LATEST = "snapshot", "latest"
FORMAT, LOCATION, TABLE = "source.format", "source.location", "source.table"
TOPIC, TOPIC_PREFIX = "topic", "topic.prefix"
QUERY_TEXT, CURSOR, ON_NULL, SPOOL = "source.query", "cursor.column", "cursor.on.null", "source.spool.location"
PARTITIONS, LAG = "source.partition.types", "source.lag.ms"
PARTITION_TYPES = ("string", "int", "bigint", "double", "boolean", "date", "timestamp", "timestamp_ntz")
START, ON_GAP = "source.start", "source.on.gap"
FAIL, SKIP = "fail", "skip"
_LAGS_MS = {PARQUET: 60_000, QUERY: 5_000}
ASSIGNED_TABLES = "spark.source.tables"
"""The locations of a task's tables; the connector sets it."""
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_PREFIX = re.compile(r"[a-zA-Z0-9._-]{0,200}")
_NOT_IN_TOPICS = re.compile(r"[^a-zA-Z0-9._-]")


def _check_format(name: str, value: object) -> None:
    if value not in FORMATS:
        raise ConfigError.invalid(name, value, f"Expected {', '.join(FORMATS)}{did_you_mean(str(value), FORMATS, '; ')}")


def _check_lag(name: str, value: object) -> None:
    if value is not None and (not isinstance(value, int) or value < 0):
        raise ConfigError.invalid(name, value, "Value must be at least 0")


def _check_start(name: str, value: object) -> None:
    if value not in (SNAPSHOT, LATEST) and not str(value).isdecimal():
        raise ConfigError.invalid(name, value, f"Expected {SNAPSHOT}, {LATEST}, or a number")


def _check_topic(name: str, value: object) -> None:
    if value and not _TOPIC.fullmatch(str(value)):
        raise ConfigError.invalid(name, value, "Expected up to 249 letters, digits, '.', '_', and '-'")


def _check_prefix(name: str, value: object) -> None:
    if not _PREFIX.fullmatch(str(value)):
        raise ConfigError.invalid(name, value, "Expected up to 200 letters, digits, '.', '_', and '-'")


def _check_partitions(name: str, value: object) -> None:
    for one in value if isinstance(value, list) else []:
        column, type_ = _partition_type(one)
        if not column or type_ not in PARTITION_TYPES:
            what = f"Expected <column>:<type>, with a type among {', '.join(PARTITION_TYPES)}"
            raise ConfigError.invalid(name, one, f"{what}{did_you_mean(type_, PARTITION_TYPES, '; ')}")


def _partition_type(text: str) -> tuple[str, str]:
    column, _, type_ = text.rpartition(":")
    return column.strip(), type_.strip().lower()


def config_def() -> ConfigDef:
    """The keys, in groups as the reference page shows them."""
    high, medium, low = Importance.HIGH, Importance.MEDIUM, Importance.LOW
    t = ConfigType
    d = ConfigDef()
    d.define(FORMAT, t.STRING, DELTA, validator=_check_format, importance=high, group="Tables",
             doc="delta: Delta tables. iceberg: Iceberg tables. parquet: directories to which files are added, and Parquet "
             "tables of the Spark sink. query: the rows of a SQL query that Spark runs.")  # fmt: skip
    d.define(LOCATION, t.LIST, "", importance=high, group="Tables",
             doc="Directories or URIs of the tables, separated by commas; with source.table, one directory or URI that "
             "contains the tables. Required without table.catalog and source.query.")  # fmt: skip
    d.define(CATALOG, t.STRING, "", validator=check_catalog, importance=high, group="Tables",
             doc="Catalog of Iceberg tables, optionally with a namespace (catalog.namespace), instead of source.location. "
             "spark.conf.spark.sql.catalog.<catalog>.type (rest, hive, jdbc, glue, or hadoop) and the catalog's properties "
             "configure it as for the sink. Needs source.table.")  # fmt: skip
    d.define(TABLE, t.LIST, "", importance=high, group="Tables",
             doc="Names of the tables in source.location or table.catalog, separated by commas. Default: source.location names "
             "the tables themselves.")  # fmt: skip
    d.define(QUERY_TEXT, t.STRING, "", importance=high, group="Query",
             doc="SQL query whose rows are read, with source.format=query: any SELECT that Spark runs, also over tables of "
             "catalogs (spark.conf.spark.sql.catalog.*).")  # fmt: skip
    d.define(CURSOR, t.STRING, "", importance=high, group="Query",
             doc="Column of the query that only grows, such as a time of change or a number. Rows after the last value are read, "
             "each as an insert.")  # fmt: skip
    d.define(ON_NULL, t.STRING, FAIL, validator=one_of(FAIL, SKIP), importance=medium, group="Query",
             doc="What happens if rows have no value in cursor.column: fail fails the task, skip counts them in the progress "
             "(rows_without_cursor).")  # fmt: skip
    d.define(SPOOL, t.STRING, "", importance=medium, group="Query",
             doc="Directory or URI where Spark writes the rows of a range with more than batch.max.rows rows, sorted, for the "
             "task to read. The worker and all executors must reach it under this name. Default: the temporary directory of the "
             "machine, with spark.master=local only.")  # fmt: skip
    d.define("key.columns", t.LIST, "", importance=high, group="Tables",
             doc="Columns that identify a row, in every table of the connector. They become the record key, and a row that a "
             "version replaces becomes one update. Default: records have no key, and such a row is a delete and an "
             "insert.")  # fmt: skip
    d.define(TOPIC, t.STRING, "", validator=_check_topic, importance=high, group="Topics",
             doc="Topic of a single table, instead of topic.prefix.")  # fmt: skip
    d.define(TOPIC_PREFIX, t.STRING, "", validator=_check_prefix, importance=high, group="Topics",
             doc="The topic of a table is <topic.prefix>.<table name>; the name is the last part of its location, with _ for "
             "characters that topics cannot have. It is also the name of the connector in source blocks.")  # fmt: skip
    d.define("source.value.format", t.STRING, ENVELOPE, validator=one_of(ENVELOPE, FLAT), importance=medium, group="Topics",
             doc="envelope: Debezium's change events, with before, after, source, and op. flat: the row after the change, with "
             "its op in the header __op; a delete is a tombstone, which needs key.columns.")  # fmt: skip
    d.define("tombstones.on.delete", t.BOOLEAN, True, importance=low, group="Topics",
             doc="Whether a tombstone follows each delete event of a record with a key, so that log compaction removes the "
             "key.")  # fmt: skip
    d.define(START, t.STRING, SNAPSHOT, validator=_check_start, importance=high, group="Reading",
             doc="Where a table without a stored offset starts: snapshot reads all rows of the newest version and then the "
             "changes, latest only later changes, and a number the changes of this version and later ones. A version of Iceberg "
             "is a sequence number or the ID of a snapshot. For a directory of Parquet files, the number is a time, in ms since "
             "1970: files that were modified then or later are read.")  # fmt: skip
    d.define(ON_GAP, t.STRING, FAIL, validator=one_of(FAIL, SNAPSHOT), importance=medium, group="Reading",
             doc="What happens if changes can no longer be read, because the log or files were cleaned up or the table was "
             "replaced: fail fails the task, snapshot reads the whole table again.")  # fmt: skip
    d.define(LAG, t.LONG, None, validator=_check_lag, importance=medium, group="Reading",
             doc="parquet: how much later than its modification time a file may appear in its directory without being missed, "
             "because it was copied with its time, or took long to upload; default 60000. query: how old a row must be to be "
             "read, by a cursor that is a time, because transactions may commit rows late; default 5000.")  # fmt: skip
    d.define(PARTITIONS, t.LIST, "", validator=_check_partitions, importance=low, group="Tables",
             doc="Types of columns that are folders of a directory of Parquet files (day=2026-01-02), as <column>:<type>. Types: "
             f"{', '.join(PARTITION_TYPES)}. Default: string.")  # fmt: skip
    d.define("poll.interval.ms", t.LONG, 500, validator=at_least(1), importance=medium, group="Reading",
             doc="How often the task looks for a new version of a table.")  # fmt: skip
    d.define("batch.max.rows", t.INT, 5_000, validator=at_least(1), importance=low, group="Reading",
             doc="Maximum number of rows that the task reads at a time.")  # fmt: skip
    d.define("source.pairing.max.rows", t.LONG, 500_000, validator=at_least(1), importance=low, group="Reading",
             doc="Maximum number of deleted rows of a version that the task holds to pair them with inserted rows of the same "
             "key. A version that deletes more is read several times, once for each part of the keys.")  # fmt: skip
    d.define("source.transaction.max.records", t.LONG, 500_000, validator=at_least(1), importance=low, group="Reading",
             doc="About how many records a transaction has at most with transaction.boundary=connector, where a version is one "
             "transaction; larger versions are divided.")  # fmt: skip
    define_spark_keys(d)
    return d


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table to read."""

    location: str
    name: str
    database: str
    """The name of the directory, namespace, or catalog that contains the table."""
    topic: str
    s3: S3Settings | None
    catalog: str = ""
    """Empty for a table at a location. Otherwise ``location`` is the name of the table with its catalog and namespaces."""


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """A query, and the Spark that runs it."""

    text: str
    cursor: str
    on_null: str
    spool: str
    """A directory or URI; empty for this machine's temporary directory."""
    spark: SparkConfig


@dataclass(frozen=True, slots=True)
class SparkSourceConfig:
    """Typed values of the keys."""

    format: str
    conf: Mapping[str, str]
    """Of Spark, without the prefix of connector keys."""
    tables: tuple[SourceTable, ...]
    query: QuerySettings | None
    """Set if the format is QUERY; there is one table then, with the location and name of its topic."""
    connector: str
    name: str
    """The name of the connector in source blocks."""
    keys: tuple[str, ...]
    value_format: str
    tombstones: bool
    start: str | int
    on_gap: str
    lag_ms: int
    partition_types: tuple[tuple[str, str], ...]
    """Column and type."""
    poll_interval_s: float
    batch_rows: int
    pairing_rows: int
    transaction_records: int


def parse_config(props: Mapping[str, str]) -> SparkSourceConfig:
    """Parses the configuration. Raises ConfigError that names the key."""
    values = config_def().parse(props)
    conf = {k.removeprefix(CONF_PREFIX): v for k, v in props.items() if k.startswith(CONF_PREFIX)}
    query = _parse_query(values, conf)
    topic = values[TOPIC]
    tables = _parse_tables(values, conf) if query is None else (SourceTable(topic, topic, "", topic, query.spark.s3),)
    assigned = props.get(ASSIGNED_TABLES)
    if assigned is not None:
        chosen = set(assigned.split(","))
        tables = tuple(table for table in tables if table.location in chosen)
    start = values[START]
    return SparkSourceConfig(
        format=values[FORMAT],
        conf=conf,
        tables=tables,
        query=query,
        connector=props.get("name", "spark-source"),
        name=values[TOPIC_PREFIX] or props.get("name", "spark-source"),
        keys=tuple(values["key.columns"]),
        value_format=values["source.value.format"],
        tombstones=values["tombstones.on.delete"],
        start=int(start) if start.isdecimal() else start,
        on_gap=values[ON_GAP],
        lag_ms=_LAGS_MS.get(values[FORMAT], 0) if values[LAG] is None else values[LAG],
        partition_types=tuple(_partition_type(one) for one in values[PARTITIONS]),
        poll_interval_s=values["poll.interval.ms"] / 1000,
        batch_rows=values["batch.max.rows"],
        pairing_rows=values["source.pairing.max.rows"],
        transaction_records=values["source.transaction.max.records"],
    )


def _parse_query(values: Mapping[str, Any], conf: Mapping[str, str]) -> QuerySettings | None:
    """None if tables are read. Raises ConfigError for keys that do not fit the format."""
    if values[FORMAT] != QUERY:
        for key in (QUERY_TEXT, CURSOR):
            if values[key]:
                raise ConfigError.invalid(key, values[key], f"{FORMAT} is {values[FORMAT]}; set {FORMAT}={QUERY}")
        return None
    for key in (QUERY_TEXT, CURSOR):
        if not values[key].strip():
            raise ConfigError.invalid(key, values[key], f"{FORMAT}={QUERY} needs it")
    for key in (LOCATION, TABLE):
        if values[key]:
            raise ConfigError.invalid(key, ",".join(values[key]), f"{FORMAT}={QUERY} reads {QUERY_TEXT}; remove one of them")
    if not values[TOPIC]:
        raise ConfigError.invalid(TOPIC, "", f"{FORMAT}={QUERY} needs it")
    if str(values[START]).isdecimal():
        what = f"Expected {SNAPSHOT} or {LATEST} with {FORMAT}={QUERY}; PATCH the offset to start at a cursor"
        raise ConfigError.invalid(START, values[START], what)
    spool = _absolute(values[SPOOL]) if values[SPOOL] else ""
    # A query may read files of Spark 2.
    spark = parse_spark_config(values, conf, read_s3_settings(conf, spool), free=(REBASE_IN_READ,))
    if not spool and (spark.remote or not is_local(spark.master)):
        what = "Spark runs on other machines; set a directory or URI that they and the worker reach"
        raise ConfigError.invalid(SPOOL, "", what)
    return QuerySettings(values[QUERY_TEXT], values[CURSOR], values[ON_NULL], spool, spark)


def _parse_tables(values: Mapping[str, Any], conf: Mapping[str, str]) -> tuple[SourceTable, ...]:
    catalog = values[CATALOG]
    locations = _catalog_names(values) if catalog else _locations(values)
    topic, prefix = values[TOPIC], values[TOPIC_PREFIX]
    if bool(topic) == bool(prefix):
        what = f"{TOPIC_PREFIX} is set too; remove one of them" if topic else f"set {TOPIC}, or {TOPIC_PREFIX}"
        raise ConfigError.invalid(TOPIC, topic, what)
    if topic and len(locations) > 1:
        raise ConfigError.invalid(TOPIC, topic, f"there are {len(locations)} tables; set {TOPIC_PREFIX} instead")
    found: dict[str, SourceTable] = {}
    for location in locations:
        *_, database, name = ["", *location.rstrip("/").split("." if catalog else "/")]
        own = topic or f"{prefix}.{_NOT_IN_TOPICS.sub('_', name)}"
        for other in found.values():
            if other.location == location:
                raise ConfigError.invalid(LOCATION, location, "the table is named twice")
            if other.topic == own:
                raise ConfigError.invalid(LOCATION, location, f"its topic {own} is that of {other.location}; use two connectors")
        s3 = None if catalog else read_s3_settings(conf, location)
        found[location] = SourceTable(location, name, database, own, s3, catalog.partition(".")[0])
    return tuple(found.values())


def _locations(values: Mapping[str, Any]) -> list[str]:
    locations = [_absolute(one) for one in values[LOCATION]]
    names = values[TABLE]
    if not locations:
        raise ConfigError.invalid(LOCATION, "", "Expected the directory or URI of a table")
    if not names:
        return locations
    if len(locations) > 1:
        raise ConfigError.invalid(LOCATION, ",".join(values[LOCATION]), f"{TABLE} needs one directory that contains the tables")
    for name in names:
        if not name.strip("/") or ".." in name.split("/"):
            raise ConfigError.invalid(TABLE, name, "Expected the name of a directory in source.location")
    return [f"{locations[0]}/{name.strip('/')}" for name in names]


def _catalog_names(values: Mapping[str, Any]) -> list[str]:
    """The names of tables of a catalog, with it and their namespaces."""
    catalog = values[CATALOG]
    if values[FORMAT] != ICEBERG:
        raise ConfigError.invalid(CATALOG, catalog, f"{values[FORMAT]} tables are at a location; set {LOCATION}")
    if values[LOCATION]:
        raise ConfigError.invalid(CATALOG, catalog, f"the catalog places its tables; remove {LOCATION}")
    if not values[TABLE]:
        raise ConfigError.invalid(TABLE, "", f"Expected the names of tables in {CATALOG}")
    for name in values[TABLE]:
        if not all(part.strip() for part in name.split(".")):
            raise ConfigError.invalid(TABLE, name, "Expected the name of a table, and of namespaces before it")
    return [f"{catalog}.{name}" for name in values[TABLE]]


def _absolute(location: str) -> str:
    if "://" in location or location.startswith("file:"):
        return with_s3a_scheme(location.rstrip("/"))
    return str(Path(location).expanduser().absolute())
