"""The keys of the Spark sink, their names and values, and the columns that it adds to tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from connect.change_events.toast import UNAVAILABLE_VALUE
from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import NonEmpty, Range, at_least, one_of
from connect.errors import ConfigError
from connect.paths import AllowedPath, local_path
from connectors.spark.masters import parse_masters
from connectors.spark.partition_terms import PARTITION_COLUMNS
from connectors.spark.schema_settings import (
    ADD,
    EVOLUTION,
    EVOLUTIONS,
    define_schema_keys,
)

APPEND = "append"
UPSERT = "upsert"
BOTH = "both"
SCD2 = "scd2"
HARD = "hard"
SOFT = "soft"
IGNORE = "ignore"
LOG = "log"
SOURCE = "source"
DELTA = "delta"
ICEBERG = "iceberg"
PARQUET = "parquet"
AUTO = "auto"
WORKER = "worker"
EXECUTORS = "executors"
ENGINE = "spark.engine"
_TRANSACTIONS = "It had an effect only with commit.scope=transaction, which no longer exists. Remove it."
REMOVED_KEYS: Mapping[str, str] = {
    "executors.sql.transforms": "Transformations always run in Python. Remove the key.",
    "commit.scope": "Each table is committed by itself, in time for its freshness.ms. Remove the key. If it was transaction, "
    "take the source's transaction topic out of topics, too, and delete the table _sluice_transactions. To read several tables "
    "at one point of the source's log, compare the positions of their rows (__seq in metadata.columns).",
    "transaction.topic": _TRANSACTIONS,
    "transaction.table": _TRANSACTIONS,
    "transaction.timeout.ms": _TRANSACTIONS,
    "transaction.retention.ms": _TRANSACTIONS,
}
"""Keys of earlier releases, and what to do instead."""
CONF_PREFIX = "spark.conf."
CATALOG = "table.catalog"
COLUMN_MAPPING = "delta.columnMapping.mode"
COLUMN_MAPPING_DEFAULT = "spark.databricks.delta.properties.defaults.columnMapping.mode"
BRANCH, MAIN_BRANCH = "table.branch", "main"
PROPERTIES_PREFIX = "table.properties."
FORMAT_VERSION = "format-version"
"""A property of Iceberg tables."""
CHANGELOG_SUFFIX = "changelog.table.suffix"
FRESHNESS = "freshness.ms"
CLUSTER_COLUMNS = "cluster.columns"
SEQUENCE_BY = "sequence.by"
DELETED_RETENTION = "sequence.deleted.retention.ms"
JSON_COLUMNS, VARIANT_COLUMNS = "json.columns", "variant.columns"
FRESHNESS_PREFIX, FRESHNESS_SUFFIX = "freshness.", ".ms"
UNAVAILABLE = UNAVAILABLE_VALUE
"""Debezium's default placeholder for an unavailable value."""
OP = "__op"
SEQ = "__seq"
SOURCE_TS = "__source_ts"
TOPIC = "__topic"
PARTITION = "__partition"
OFFSET = "__offset"
DELETED = "__deleted"
VALID_FROM, VALID_TO, CURRENT = "__valid_from", "__valid_to", "__current"
VERSION_COLUMNS = (VALID_FROM, VALID_TO, CURRENT)
"""Columns of ``write.mode=scd2``."""
METADATA_COLUMNS = (OP, SEQ, SOURCE_TS, TOPIC, PARTITION, OFFSET, DELETED)
APPEND_METADATA = (OP, SOURCE_TS, TOPIC, PARTITION, OFFSET)
NO_METADATA = "none"
NAME_VARIABLES = ("topic", "database", "schema", "table")
SOURCE_VARIABLES = ("database", "schema", "table")
VARIABLE = re.compile(r"\$\{([^}]*)\}")
"""A variable in ``table.name.format``."""


class _Location:
    """A directory or a URI. One slash after a scheme would silently name a directory of the worker."""

    def __call__(self, name: str, value: Any) -> None:
        if value == "":
            return  # table.catalog is used instead
        NonEmpty()(name, value)
        if re.match(r"[a-z][a-z0-9+.-]+:/(?!/)", str(value)) and not str(value).startswith("file:"):
            scheme, _, path = str(value).partition(":/")
            raise ConfigError.invalid(name, value, f"a URI has two slashes after its scheme: {scheme}://{path}")
        AllowedPath()(name, local_path(str(value)))

    def __str__(self) -> str:
        return str(NonEmpty())


def check_catalog(name: str, value: object) -> None:
    """Raises ConfigError unless the value names a catalog, or is empty."""
    if value and not all(part.strip() for part in str(value).split(".")):
        raise ConfigError.invalid(name, value, "Expected the name of a catalog, and of namespaces in it after dots")


class _Master:
    """Where Spark runs; the addresses of standalone masters are parsed."""

    def __call__(self, name: str, value: Any) -> None:
        NonEmpty()(name, value)
        parse_masters(name, value)

    def __str__(self) -> str:
        return str(NonEmpty())


def _check_name_format(name: str, value: object) -> None:
    text = str(value)
    for variable in VARIABLE.findall(text):
        if variable not in NAME_VARIABLES:
            known = ", ".join("${" + v + "}" for v in NAME_VARIABLES)
            raise ConfigError.invalid(name, value, f"unknown variable ${{{variable}}}; use {known}")
    rest = VARIABLE.sub("", text)
    if "${" in rest:
        raise ConfigError.invalid(name, value, "a variable has no closing brace")
    if not text or "/" in rest:
        raise ConfigError.invalid(name, value, "Expected a table name without slashes")


def _check_keys(name: str, value: object) -> None:
    columns = [column for column in value if column] if isinstance(value, list) else []
    if len(set(columns)) < len(columns):
        raise ConfigError.invalid(name, ",".join(columns), "a column is named twice")


def _check_suffix(name: str, value: object) -> None:
    NonEmpty()(name, value)
    if "/" in str(value):
        raise ConfigError.invalid(name, value, "Expected the end of a table name without slashes")


def _check_metadata(name: str, value: object) -> None:
    for column in value if isinstance(value, list) else ():
        if column not in (*METADATA_COLUMNS, NO_METADATA):
            raise ConfigError.invalid(name, column, f"Expected some of {', '.join(METADATA_COLUMNS)}, or {NO_METADATA}")
    if isinstance(value, list) and NO_METADATA in value and len(value) > 1:
        raise ConfigError.invalid(name, ",".join(value), f"Expected either columns or {NO_METADATA}")


def _check_rescue_column(name: str, value: object) -> None:
    if not value or value in (*METADATA_COLUMNS, *VERSION_COLUMNS) or str(value).startswith("__sluice_"):
        raise ConfigError.invalid(name, value, "Expected the name of a column that is no metadata column")


def define_spark_keys(d: ConfigDef) -> None:
    """Adds the keys that say which Spark a connector uses; ``spark.conf.<key>`` is read in addition."""
    t, high, medium, low = ConfigType, Importance.HIGH, Importance.MEDIUM, Importance.LOW
    d.define("spark.master", t.STRING, "local[*]", validator=_Master(), importance=high, group="Spark",
             doc="Where Spark runs: local[N] inside the worker, spark://host:port on a cluster.")  # fmt: skip
    d.define("spark.remote", t.STRING, "", importance=medium, group="Spark",
             doc="Address of a Spark Connect server (sc://host:port). Needs pyspark[connect].")  # fmt: skip
    d.define("spark.jars", t.LIST, "", importance=medium, group="Spark",
             doc="JARs of the table format, or folders that contain them. Default: SLUICE_SPARK_JARS, else those of sluice "
             "setup.")  # fmt: skip
    d.define("spark.linger.ms", t.LONG, 60_000, validator=at_least(0), importance=low, group="Spark",
             doc="How long Spark keeps running after its last task, so that a restart is fast.")  # fmt: skip
    d.define("spark.executors.timeout.ms", t.LONG, 60_000, validator=at_least(1_000), importance=low, group="Spark",
             doc="How long a job waits for the first executor of a cluster, at most. It is then cancelled, logged, and tried "
             "again.")  # fmt: skip


def config_def() -> ConfigDef:
    """Defines the sink's keys. ``spark.conf.<key>``, ``table.properties.<key>``, ``freshness.<table>.ms``, and
    ``schema.evolution.<table>`` and ``column.renames.<table>`` are read in addition."""
    t, high, medium, low = ConfigType, Importance.HIGH, Importance.MEDIUM, Importance.LOW
    d = ConfigDef(removed=REMOVED_KEYS)
    d.define("topics", t.LIST, "", importance=high, group="Topics", doc="Topics to write into tables, comma-separated.")
    d.define(
        "topics.regex",
        t.STRING,
        "",
        importance=high,
        group="Topics",
        doc="Regular expression of the topics; use instead of topics.",
    )
    define_spark_keys(d)
    d.define("table.format", t.STRING, DELTA, validator=one_of(DELTA, ICEBERG, PARQUET), importance=high, group="Table",
             doc="Format of the tables. parquet supports only write.mode=append.")  # fmt: skip
    d.define("table.location", t.STRING, "", validator=_Location(), importance=high, group="Table",
             doc="Directory or URI (such as s3://bucket/path) that contains one directory per table, named like the table. "
             "Required without table.catalog.")  # fmt: skip
    d.define(CATALOG, t.STRING, "", validator=check_catalog, importance=high, group="Table",
             doc="Catalog of Iceberg tables, optionally with a namespace (catalog.namespace), instead of table.location. "
             "spark.conf.spark.sql.catalog.<catalog> and its properties configure it. Dots in table names separate further "
             "namespaces.")  # fmt: skip
    d.define(BRANCH, t.STRING, MAIN_BRANCH, validator=NonEmpty(), importance=low, group="Table",
             doc="Branch of Iceberg tables that rows are committed to. A branch that a table lacks begins with the rows of "
             "main.")  # fmt: skip
    d.define("table.name.format", t.STRING, "${topic}", validator=_check_name_format, importance=high, group="Table",
             doc="Table name for a topic. ${topic} is the topic; ${database}, ${schema}, and ${table} come from the source block "
             "of a change event.")  # fmt: skip
    d.define("write.mode", t.STRING, APPEND, validator=one_of(APPEND, UPSERT, SCD2, BOTH), importance=high, group="Table",
             doc="append keeps every event as a row; upsert keeps the newest row per key; scd2 keeps every version of a row; "
             "both writes two tables, one with append and one with upsert.")  # fmt: skip
    d.define(CHANGELOG_SUFFIX, t.STRING, "_changelog", validator=_check_suffix, importance=low, group="Table",
             doc="Suffix that write.mode=both adds to a table's name for the table that keeps every event.")  # fmt: skip
    d.define("key.columns", t.LIST, "", validator=_check_keys, importance=high, group="Table",
             doc="Columns that identify a row, unless write.mode=append. Default: the fields of the record key.")  # fmt: skip
    d.define("upsert.index.max.keys", t.LONG, 50_000_000, validator=at_least(0), importance=low, group="Table",
             doc="Maximum number of rows of a table whose keys the task indexes (16 to 24 bytes each) to find the rows that an "
             "upsert replaces. In larger Delta tables Spark finds them, which takes longer; larger Iceberg tables are "
             "refused.")  # fmt: skip
    d.define(PARTITION_COLUMNS, t.LIST, "", importance=medium, group="Table",
             doc="Columns by which new tables are partitioned. Existing tables stay as they are. With Iceberg also days(c), "
             "bucket(c, 16), truncate(c, 4), and other transforms of a column.")  # fmt: skip
    d.define(CLUSTER_COLUMNS, t.LIST, "", importance=medium, group="Table",
             doc="Columns by which OPTIMIZE clusters new Delta tables (liquid clustering), instead of partition.columns. "
             "Existing tables stay as they are.")  # fmt: skip
    d.define("delete.mode", t.STRING, HARD, validator=one_of(HARD, SOFT, IGNORE), importance=medium, group="Table",
             doc="How upsert handles a delete: hard removes the row, soft sets __deleted, ignore keeps the row.")  # fmt: skip
    d.define(SEQUENCE_BY, t.STRING, LOG, validator=one_of(LOG, SOURCE), importance=medium, group="Table",
             doc="Which of two changes of a key is newer, with write.mode=upsert and both: log, the later one in its partition; "
             "source, the one with the greater position in the source's log (__seq, which is added to the tables), whatever the "
             "order of arrival.")  # fmt: skip
    d.define(DELETED_RETENTION, t.LONG, 7 * 86_400_000, validator=at_least(0), importance=low, group="Table",
             doc="With sequence.by=source and delete.mode=hard: how long the positions of deleted keys are kept, so that a late "
             "change does not bring a row back.")  # fmt: skip
    d.define("delete.field", t.STRING, DELETED, importance=medium, group="Table",
             doc="Field of plain records (no change events) that marks a delete with true, unless write.mode=append; it is no "
             "column. ExtractNewRecordState with delete.tombstone.handling.mode=rewrite writes the default. Empty: "
             "none.")  # fmt: skip
    d.define(EVOLUTION, t.STRING, ADD, validator=EVOLUTIONS, importance=medium, group="Table",
             doc="How to handle a column that the table lacks: add creates it, none omits it, fail fails the task. widen creates "
             "it, and widens the columns of Delta and Iceberg tables whose type is too narrow. lenient alters nothing: what the "
             "table cannot hold goes into rescue.column. schema.evolution.<table> sets it for one table.")  # fmt: skip
    d.define("rescue.column", t.STRING, "_rescued_data", validator=_check_rescue_column, importance=low, group="Table",
             doc="Column for values that the table cannot hold, with schema.evolution=lenient: JSON text by field.")  # fmt: skip
    d.define(JSON_COLUMNS, t.STRING, "string", validator=one_of("string", "variant"), importance=medium, group="Table",
             doc="Column type of Debezium's Json fields: string, or variant. VARIANT needs Delta tables, or Iceberg "
             "tables of format version 3.")  # fmt: skip
    d.define(VARIANT_COLUMNS, t.LIST, "", importance=medium, group="Table",
             doc="Columns whose values become VARIANT, whatever their type, for example JSON of varying shape.")  # fmt: skip
    d.define("variant.text", t.STRING, "string", validator=one_of("string", "json"), importance=low, group="Table",
             doc="What text in a VARIANT column becomes: a string, or the JSON document that it contains. Debezium's Json is "
             "always a document.")  # fmt: skip
    define_schema_keys(d)
    d.define("metadata.columns", t.LIST, None, validator=_check_metadata, importance=medium, group="Table",
             doc=f"Metadata columns to write, of {', '.join(METADATA_COLUMNS)}, or none. Default: "
             f"{', '.join(APPEND_METADATA)} for append and changelogs, none for others. delete.mode=soft always adds __deleted, "
             "sequence.by=source __seq, and scd2 its columns.")  # fmt: skip
    d.define("append.tombstones", t.STRING, "keep", validator=one_of("keep", IGNORE), importance=low, group="Table",
             doc="Whether append writes a record without a value as a row (with __op 'tombstone'): keep or ignore.")  # fmt: skip
    d.define("unavailable.value.placeholder", t.STRING, UNAVAILABLE, validator=NonEmpty(), importance=low, group="Table",
             doc="Placeholder in change events for an unavailable value (a large value that an update did not change); upsert "
             "keeps the table's value. Must equal the source's key of the same name.")  # fmt: skip
    unavailable = one_of("merge", "null", "fail")
    d.define("unavailable.value", t.STRING, "merge", validator=unavailable, importance=low, group="Table",
             doc="What upsert writes for an unavailable value: merge keeps the table's value, null always writes null, fail "
             "fails the task if the table lacks the row. If it lacks the row, merge writes null and counts it.")  # fmt: skip
    d.define("append.replay", t.STRING, "refuse", validator=one_of("refuse", "repeat"), importance=low, group="Table",
             doc="Whether offsets of an append or scd2 table may be moved back over REST: refuse, because the records would be "
             "written a second time, or repeat.")  # fmt: skip
    d.define("compaction.target.file.bytes", t.LONG, 128 << 20, validator=at_least(1 << 20), importance=low, group="Care",
             doc="Size of the files into which small files are merged.")  # fmt: skip
    d.define("compaction.min.files", t.INT, 20, validator=at_least(0), importance=low, group="Care",
             doc="Number of files of about the same size that are merged into one; 0 turns compaction off.")  # fmt: skip
    d.define("vacuum.interval.ms", t.LONG, 86_400_000, validator=at_least(0), importance=low, group="Care",
             doc="How often VACUUM runs on a Delta table, with the table's own retention, and how long an Iceberg table keeps a "
             "few snapshots that have expired; 0 turns both off.")  # fmt: skip
    d.define("freshness.ms", t.LONG, 1_000, validator=at_least(0), importance=high, group="Commit",
             doc="How long after its arrival a record should be visible in its table at most. Commits start accordingly early. "
             "freshness.<table>.ms sets it for one table.")  # fmt: skip
    d.define("commit.interval.ms", t.LONG, None, validator=Range(minimum=0, nullable=True), importance=medium, group="Commit",
             doc="Fixed time from the arrival of a record until its commit starts, instead of freshness.ms.")  # fmt: skip
    d.define("commit.max.records", t.LONG, 500_000, validator=at_least(1), importance=medium, group="Commit",
             doc="Maximum number of records that a task holds: waiting or being committed, in all tables together. When half of "
             "it is used, commits start early; when all is used, consumption pauses.")  # fmt: skip
    d.define("commit.max.bytes", t.LONG, 256 << 20, validator=at_least(1 << 20), importance=low, group="Commit",
             doc="Like commit.max.records, in bytes of records, decoded or not.")  # fmt: skip
    d.define(ENGINE, t.STRING, AUTO, validator=one_of(AUTO, WORKER, EXECUTORS), importance=medium, group="Engine",
             doc="Where records are decoded and data files are written: worker for low latency, executors (of Spark) for "
             "backlogs and clusters. auto uses the executors of a cluster while a task lags by executors.min.records, and else "
             "the worker.")  # fmt: skip
    d.define("executors.min.records", t.LONG, 1_000_000, validator=at_least(1), importance=low, group="Engine",
             doc="Number of records that a task must lag behind so that spark.engine=auto uses Spark's executors.")  # fmt: skip
    d.define("executors.max.records", t.LONG, 5_000_000, validator=at_least(1), importance=low, group="Engine",
             doc="Maximum number of records of one job in Spark's executors, and so of a commit.")  # fmt: skip
    return d
