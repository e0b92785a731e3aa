"""Configuration of the Spark sink: keys and typed values."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from connect.change_events.toast import UNAVAILABLE_VALUE
from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import NonEmpty, Range, at_least, one_of
from connect.errors import ConfigError
from connectors.spark.masters import parse_masters
from connectors.spark.partition_terms import PARTITION_COLUMNS, parse_term
from connectors.spark.routes import Routes
from connectors.spark.s3_settings import S3A_PREFIX, S3Settings, is_s3, read_s3_settings, with_s3a_scheme
from connectors.spark.schema_settings import (
    ADD,
    EVOLUTION,
    EVOLUTION_PREFIX,
    EVOLUTIONS,
    LENIENT,
    MISSING,
    WIDEN,
    OfTable,
    SchemaSettings,
    check_renames,
    define_schema_keys,
    parse_schema_settings,
    parse_table_keys,
)
from connectors.spark.transaction_settings import TransactionConfig, define_transaction_keys, parse_transactions
from connectors.spark.variant_columns import NO_VARIANTS, VariantColumns

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
ALWAYS, NEVER = "always", "never"
WORKER = "worker"
EXECUTORS = "executors"
ENGINE = "spark.engine"
CONF_PREFIX = "spark.conf."
CATALOG = "table.catalog"
BRANCH, MAIN_BRANCH = "table.branch", "main"
PROPERTIES_PREFIX = "table.properties."
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
TRANSACTION_KEY = "round"
"""The key of the table of transactions."""

NAME_VARIABLES = ("topic", "database", "schema", "table")
SOURCE_VARIABLES = ("database", "schema", "table")
_MAX_CLUSTER_COLUMNS = 4
_NOT_WIDER = "readers of parquet tables expect one type; use table.format=delta"
_VARIABLE = re.compile(r"\$\{([^}]*)\}")


class _Location:
    """A directory or a URI. One slash after a scheme would silently name a directory of the worker."""

    def __call__(self, name: str, value: Any) -> None:
        if value == "":
            return  # table.catalog is used instead
        NonEmpty()(name, value)
        if re.match(r"[a-z][a-z0-9+.-]+:/(?!/)", str(value)) and not str(value).startswith("file:"):
            scheme, _, path = str(value).partition(":/")
            raise ConfigError.invalid(name, value, f"a URI has two slashes after its scheme: {scheme}://{path}")

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
    for variable in _VARIABLE.findall(text):
        if variable not in NAME_VARIABLES:
            known = ", ".join("${" + v + "}" for v in NAME_VARIABLES)
            raise ConfigError.invalid(name, value, f"unknown variable ${{{variable}}}; use {known}")
    if not text or "/" in _VARIABLE.sub("", text):
        raise ConfigError.invalid(name, value, "Expected a table name without slashes")


def _check_suffix(name: str, value: object) -> None:
    NonEmpty()(name, value)
    if "/" in str(value):
        raise ConfigError.invalid(name, value, "Expected the end of a table name without slashes")


def _check_metadata(name: str, value: object) -> None:
    for column in value if isinstance(value, list) else ():
        if column not in (*METADATA_COLUMNS, NO_METADATA):
            raise ConfigError.invalid(name, column, f"Expected some of {', '.join(METADATA_COLUMNS)}, or {NO_METADATA}")


def _check_rescue_column(name: str, value: object) -> None:
    if not value or value in (*METADATA_COLUMNS, *VERSION_COLUMNS) or str(value).startswith("__sluice_"):
        raise ConfigError.invalid(name, value, "Expected the name of a column that is no metadata column")


def _parse_table_freshness(props: Mapping[str, str]) -> dict[str, int]:
    """Reads ``freshness.<table>.ms``. Raises ConfigError."""
    found = {}
    for key, text in props.items():
        if key.startswith(FRESHNESS_PREFIX) and key != FRESHNESS:
            table = key.removeprefix(FRESHNESS_PREFIX).removesuffix(FRESHNESS_SUFFIX)
            if not table or not key.endswith(FRESHNESS_SUFFIX):
                raise ConfigError.invalid(key, text, "Unknown key; expected freshness.<table>.ms")
            try:
                found[table] = int(text)
            except ValueError:
                raise ConfigError.invalid(key, text, "Not a number of type LONG") from None
            at_least(0)(key, found[table])
    return found


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


def parse_spark_config(values: Mapping[str, Any], conf: Mapping[str, str], s3: S3Settings | None) -> SparkConfig:
    """How to connect to Spark, from parsed keys and the settings of ``spark.conf.``."""
    return SparkConfig(
        master=values["spark.master"],
        remote=values["spark.remote"],
        conf=tuple(sorted(conf.items())),
        jars=tuple(values["spark.jars"]),
        linger_ms=values["spark.linger.ms"],
        executors_timeout_ms=values["spark.executors.timeout.ms"],
        s3=s3,
    )


def config_def() -> ConfigDef:
    """Defines the sink's keys. ``spark.conf.<key>``, ``table.properties.<key>``, ``freshness.<table>.ms``, and
    ``schema.evolution.<table>`` and ``column.renames.<table>`` are read in addition."""
    t, high, medium, low = ConfigType, Importance.HIGH, Importance.MEDIUM, Importance.LOW
    d = ConfigDef()
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
    d.define("key.columns", t.LIST, "", importance=high, group="Table",
             doc="Columns that identify a row, unless write.mode=append. Default: the fields of the record key.")  # fmt: skip
    d.define("upsert.index.max.keys", t.LONG, 50_000_000, validator=at_least(0), importance=low, group="Table",
             doc="Maximum number of rows of a table whose keys the task indexes (16 to 24 bytes each) to find the rows that an "
             "upsert replaces. In larger tables Spark finds them, which takes longer.")  # fmt: skip
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
             "it, and widens the columns of Delta tables whose type is too narrow. lenient alters nothing: what the table cannot "
             "hold goes into rescue.column. schema.evolution.<table> sets it for one table.")  # fmt: skip
    d.define("rescue.column", t.STRING, "_rescued_data", validator=_check_rescue_column, importance=low, group="Table",
             doc="Column for values that the table cannot hold, with schema.evolution=lenient: JSON text by field.")  # fmt: skip
    d.define(JSON_COLUMNS, t.STRING, "string", validator=one_of("string", "variant"), importance=medium, group="Table",
             doc="Column type of Debezium's Json fields: string, or variant. VARIANT needs Delta tables.")  # fmt: skip
    d.define(VARIANT_COLUMNS, t.LIST, "", importance=medium, group="Table",
             doc="Columns of Delta tables whose values become VARIANT, whatever their type, for example JSON of varying "
             "shape.")  # fmt: skip
    d.define("variant.text", t.STRING, "string", validator=one_of("string", "json"), importance=low, group="Table",
             doc="What text in a VARIANT column becomes: a string, or the JSON document that it contains. Debezium's Json is "
             "always a document.")  # fmt: skip
    define_schema_keys(d)
    d.define("metadata.columns", t.LIST, None, validator=_check_metadata, importance=medium, group="Table",
             doc=f"Metadata columns to write, of {', '.join(METADATA_COLUMNS)}, or none. Default: "
             f"{', '.join(APPEND_METADATA)} for append and changelogs, none for upsert (delete.mode=soft always adds "
             "__deleted).")  # fmt: skip
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
             doc="How often a task runs VACUUM on its Delta tables, with the tables' own retention; 0 turns it off.")  # fmt: skip
    d.define("freshness.ms", t.LONG, 1_000, validator=at_least(0), importance=high, group="Commit",
             doc="How long after its arrival a record should be visible in its table at most. Commits start accordingly early. "
             "freshness.<table>.ms sets it for one table.")  # fmt: skip
    d.define("commit.interval.ms", t.LONG, None, validator=Range(minimum=0, nullable=True), importance=medium, group="Commit",
             doc="Fixed time from the arrival of a record until its commit starts, instead of freshness.ms.")  # fmt: skip
    d.define("commit.max.records", t.LONG, 500_000, validator=at_least(1), importance=medium, group="Commit",
             doc="Maximum number of records that a task holds: waiting or being committed, in all tables together. When half of "
             "it is used, commits start early; when all is used, consumption pauses.")  # fmt: skip
    d.define("commit.max.bytes", t.LONG, 256 << 20, validator=at_least(1 << 20), importance=low, group="Commit",
             doc="Like commit.max.records, in bytes of decoded records.")  # fmt: skip
    d.define(ENGINE, t.STRING, AUTO, validator=one_of(AUTO, WORKER, EXECUTORS), importance=medium, group="Engine",
             doc="Where records are decoded and data files are written: worker for low latency, executors (of Spark) for "
             "backlogs and clusters. auto uses the executors of a cluster while a task lags by executors.min.records, and else "
             "the worker.")  # fmt: skip
    d.define("executors.min.records", t.LONG, 1_000_000, validator=at_least(1), importance=low, group="Engine",
             doc="Number of records that a task must lag behind so that spark.engine=auto uses Spark's executors.")  # fmt: skip
    d.define("executors.max.records", t.LONG, 5_000_000, validator=at_least(1), importance=low, group="Engine",
             doc="Maximum number of records of one job in Spark's executors, and so of a commit.")  # fmt: skip
    d.define("executors.sql.transforms", t.STRING, AUTO, validator=one_of(AUTO, ALWAYS, NEVER), importance=low, group="Engine",
             doc="Whether Spark SQL computes transformations in Spark's executors, for JsonConverter with schemas, as far as SQL "
             "gives their results: auto if there are at least two. Constants of theirs are visible in Spark's plans. With never, "
             "they run row by row.")  # fmt: skip
    define_transaction_keys(d)
    return d


@dataclass(frozen=True, slots=True)
class SparkConfig:
    """How to connect to Spark. Connectors with the same address share one Spark."""

    master: str
    remote: str
    conf: tuple[tuple[str, str], ...]
    jars: tuple[str, ...]
    linger_ms: int = 60_000
    executors_timeout_ms: int = 60_000
    s3: S3Settings | None = None
    """How to reach the tables, if they are on S3."""


@dataclass(frozen=True, slots=True)
class WantedLayout:
    """What new tables are like: how they are divided (only one of both), and their properties."""

    partition_columns: tuple[str, ...] = ()
    cluster_columns: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TableConfig:
    """Settings of every table of the connector."""

    write_mode: str
    key_columns: tuple[str, ...]
    delete_mode: str
    schema_evolution: str
    metadata_columns: tuple[str, ...]
    keep_tombstones: bool
    rescue_column: str = "_rescued_data"
    unavailable: str = UNAVAILABLE
    unavailable_value: str = "merge"
    replay: str = "refuse"
    delete_field: str = DELETED
    """The field of plain records that marks deletes; empty if none does."""
    layout: WantedLayout = WantedLayout()
    max_index_keys: int = 50_000_000
    creates_table: bool = True
    """Whether a table that does not exist is created."""
    compaction_target_bytes: int = 128 << 20
    compaction_min_files: int = 20
    vacuum_interval_ms: int = 86_400_000
    sequence_by: str = LOG
    deleted_retention_ms: int = 7 * 86_400_000
    branch: str = MAIN_BRANCH
    """Of Iceberg tables."""
    operation_field: tuple[str, ...] = ()
    """The path of a field with the operation of a record that is no change event; its first letter D deletes the row."""
    ignores_case: bool = False
    """Whether fields are those columns of the table whose names differ only in case."""
    schema: SchemaSettings = field(default_factory=SchemaSettings)

    @property
    def orders_by_source(self) -> bool:
        """Whether the change with the greatest position in the source wins."""
        return self.sequence_by == SOURCE

    @property
    def replaces_rows(self) -> bool:
        """Whether the last change to arrive replaces the row of its key, whatever the table has (or, without keys, is added)."""
        return not self.keeps_versions and not self.orders_by_source

    def with_own(self, own: OfTable) -> TableConfig:
        """The settings of a table that has some of its own."""
        schema = replace(self.schema, renames={**self.schema.renames, **own.renames})
        return replace(self, schema=schema, schema_evolution=own.evolution or self.schema_evolution)

    @property
    def unavailable_fails(self) -> bool:
        return self.unavailable_value == "fail"

    @property
    def soft_deletes(self) -> bool:
        return self.upserts and self.delete_mode == SOFT

    @property
    def adds_columns(self) -> bool:
        """Whether the sink may add columns to a table; if it is lenient, only columns of its own."""
        return self.schema_evolution in (ADD, WIDEN, LENIENT)

    @property
    def is_lenient(self) -> bool:
        return self.schema_evolution == LENIENT

    @property
    def widens_columns(self) -> bool:
        return self.schema_evolution == WIDEN

    @property
    def upserts(self) -> bool:
        """Whether changes apply to the rows of their keys."""
        return self.write_mode in (UPSERT, SCD2)

    @property
    def repeats_rows(self) -> bool:
        """Whether records that are read a second time add rows again."""
        return self.write_mode != UPSERT

    @property
    def keeps_versions(self) -> bool:
        return self.write_mode == SCD2


@dataclass(frozen=True, slots=True)
class SparkSinkConfig:
    """The validated configuration of the sink."""

    connector: str
    spark: SparkConfig
    table_format: str
    location: str
    """Empty for the tables of a catalog."""
    catalog: str
    """A catalog, and perhaps a namespace; empty for tables at a location."""
    name_format: str
    table: TableConfig
    """Of all tables, except those of changelogs."""
    freshness_ms: int
    table_freshness_ms: Mapping[str, int]
    """``freshness_ms`` of single tables."""
    commit_interval_ms: int | None
    commit_max_records: int
    commit_max_bytes: int
    changelog: TableConfig | None = None
    """Of the tables that keep every event beside the current tables; None without such tables."""
    changelog_suffix: str = "_changelog"
    variants: VariantColumns = NO_VARIANTS
    routes: Routes | None = None
    """How records find their tables; None if ``name_format`` names them."""
    engine: str = WORKER
    executors_min_records: int = 1_000_000
    executors_max_records: int = 5_000_000
    executors_sql_transforms: str = AUTO
    """Whether Spark SQL may compute transformations in Spark's executors."""
    tables: Mapping[str, TableConfig] = field(default_factory=dict)
    """By name: the settings of tables that have some of their own."""
    table_schemas: Mapping[str, OfTable] = field(default_factory=dict)
    """By name: how the schemas of some tables change."""
    transactions: TransactionConfig | None = None
    """None unless whole transactions of the source are committed together."""

    @property
    def may_use_executors(self) -> bool:
        """Whether Spark's executors may decode and write."""
        if self.engine == AUTO:
            is_remote = bool(self.spark.remote) or self.spark.master.startswith("local")
            return not is_remote and self.table_format != PARQUET and self.transactions is None
        return self.engine == EXECUTORS

    def of_table(self, name: str) -> TableConfig:
        """The settings of the table with this name."""
        if self.transactions is not None and name == self.transactions.table:
            return _transaction_table_config(self.table)
        found = self.tables.get(name)
        if found is None:
            found = self.changelog if self.changelog is not None and self._is_changelog(name) else self.table
        own = self.table_schemas.get(name)
        return found if own is None else found.with_own(own)

    def settings(self) -> list[TableConfig]:
        """The settings of all tables, each once."""
        named = [self.of_table(name) for name in {**self.tables, **self.table_schemas}]
        return [self.table, *([] if self.changelog is None else [self.changelog]), *named]

    def _is_changelog(self, name: str) -> bool:
        return self.changelog is not None and name not in self.tables and name.endswith(self.changelog_suffix)

    def changelog_of(self, table: str) -> str | None:
        """The name of the changelog of a current table; None without changelogs."""
        return None if self.changelog is None else table + self.changelog_suffix

    def current_table_of(self, table: str) -> str:
        """The name of the current table to which a table belongs: itself, unless it is a changelog."""
        return table.removesuffix(self.changelog_suffix) if self._is_changelog(table) else table

    @property
    def names_need_source(self) -> bool:
        """True when the table name depends on the source block of the record, not only on its topic."""
        return self.routes is None and any(v in SOURCE_VARIABLES for v in _VARIABLE.findall(self.name_format))

    @property
    def names_need_record(self) -> bool:
        """True when the tables of a topic are known only from its records."""
        return self.names_need_source or (self.routes is not None and self.routes.is_dynamic)

    def table_name(self, topic: str, database: str | None, schema: str | None, table: str | None) -> str:
        """The table name for a record. Raises ConfigError when the format needs a field that the source block lacks."""
        values = {"topic": topic, "database": database, "schema": schema, "table": table}

        def value(match: re.Match[str]) -> str:
            found = values[match.group(1)]
            if not found:
                raise ConfigError.invalid(
                    "table.name.format",
                    self.name_format,
                    f"a record of topic {topic} has no source.{match.group(1)}; use ${{topic}}",
                )
            # A table is one directory below the location; its name must not leave that directory.
            return found.replace("/", "_")

        name = _VARIABLE.sub(value, self.name_format)
        if name in (".", "..", ""):
            raise ConfigError.invalid("table.name.format", self.name_format, f"results in the name {name!r} for topic {topic}")
        if self.transactions is not None and name == self.transactions.table:
            raise ConfigError.invalid("transaction.table", name, f"topic {topic} has a table of this name")
        if self._is_changelog(name):
            raise ConfigError.invalid(
                CHANGELOG_SUFFIX, self.changelog_suffix, f"the table {name} of topic {topic} has the name of a changelog"
            )
        return name


def parse_config(props: Mapping[str, str], *, tables: Collection[str] | None = None) -> SparkSinkConfig:
    """Parses the configuration. Raises ConfigError that names the key. ``tables`` are all tables, or empty if they are not known;
    by default, topics and name format tell."""
    values = config_def().parse(props)
    location, catalog = _parse_place(values)
    conf = {k.removeprefix(CONF_PREFIX): v for k, v in props.items() if k.startswith(CONF_PREFIX)}
    mode = str(values["write.mode"])
    is_both = mode == BOTH
    if values["table.format"] == ICEBERG and values["spark.remote"]:
        raise ConfigError.invalid(
            "spark.remote", values["spark.remote"], "Iceberg's commits are out of reach of Spark Connect; use spark.master"
        )
    if mode == SCD2 and values["spark.remote"]:
        raise ConfigError.invalid(
            "spark.remote", values["spark.remote"], "write.mode=scd2 is out of reach of Spark Connect; use spark.master"
        )
    spark = parse_spark_config(values, conf, read_s3_settings(conf, location or _warehouse(conf, catalog)))
    if values[ENGINE] == EXECUTORS and (values["spark.remote"] or values["table.format"] == PARQUET):
        reason = "parquet tables are written without Spark" if values["table.format"] == PARQUET else (
            "the commits of executors' files are out of reach of Spark Connect"
        )  # fmt: skip
        raise ConfigError.invalid(ENGINE, EXECUTORS, f"{reason}; use {WORKER} or {AUTO}")
    if values[ENGINE] == EXECUTORS and values["commit.scope"] == "transaction":
        reason = "commit.scope=transaction needs all records in the task"
        raise ConfigError.invalid(ENGINE, EXECUTORS, f"{reason}; use {WORKER} or {AUTO}")
    properties = tuple(
        (k.removeprefix(PROPERTIES_PREFIX), v) for k, v in sorted(props.items()) if k.startswith(PROPERTIES_PREFIX)
    )
    if properties and values["table.format"] == PARQUET:
        raise ConfigError.invalid(PROPERTIES_PREFIX + properties[0][0], properties[0][1], "parquet tables have no properties")
    config = SparkSinkConfig(
        connector=props.get("name", "spark-sink"),
        spark=spark,
        table_format=values["table.format"],
        location=location,
        catalog=catalog,
        name_format=values["table.name.format"],
        table=_parse_table_config(values, UPSERT if is_both else mode, properties),
        changelog=_parse_table_config(values, APPEND, properties) if is_both else None,
        changelog_suffix=values[CHANGELOG_SUFFIX],
        freshness_ms=values[FRESHNESS],
        table_freshness_ms=_parse_table_freshness(props),
        commit_interval_ms=values["commit.interval.ms"],
        commit_max_records=values["commit.max.records"],
        commit_max_bytes=values["commit.max.bytes"],
        engine=values[ENGINE],
        executors_min_records=values["executors.min.records"],
        executors_max_records=values["executors.max.records"],
        executors_sql_transforms=values["executors.sql.transforms"],
        variants=_parse_variants(values),
        transactions=parse_transactions(
            props, values, is_versioned=values["table.format"] != PARQUET and not values["spark.remote"]
        ),
    )
    found: list[str] = []
    if not config.names_need_source:
        found = [config.table_name(topic, None, None, None) for topic in values["topics"]]  # raises for a topic without a table
    named = [*found, *filter(None, map(config.changelog_of, found))] if tables is None else tables
    config = replace(config, table_schemas=parse_table_keys(props, named))
    check_schemas(config)
    return config


def check_schemas(config: SparkSinkConfig) -> None:
    """Raises ConfigError for settings of tables that contradict each other."""
    for name, own in config.table_schemas.items():
        if own.evolution == WIDEN and config.table_format == PARQUET:
            raise ConfigError.invalid(EVOLUTION_PREFIX + name, WIDEN, _NOT_WIDER)
    for table in config.settings():
        layout = table.layout
        partitions = [parse_term(term)[0] if config.table_format == ICEBERG else term for term in layout.partition_columns]
        columns = {"key.columns": table.key_columns, PARTITION_COLUMNS: partitions, CLUSTER_COLUMNS: layout.cluster_columns}
        check_renames(table.schema.renames, columns, table.rescue_column)


def _parse_table_config(values: Mapping[str, Any], mode: str, properties: tuple[tuple[str, str], ...]) -> TableConfig:
    parquet = values["table.format"] == PARQUET
    if parquet and mode != APPEND:
        raise ConfigError.invalid("write.mode", values["write.mode"], "a parquet table can only append; use table.format=delta")
    if parquet and values[EVOLUTION] == WIDEN:
        raise ConfigError.invalid(EVOLUTION, WIDEN, _NOT_WIDER)
    chosen = values["metadata.columns"]
    if isinstance(chosen, list):
        metadata = tuple(c for c in METADATA_COLUMNS if c in chosen)
    else:
        metadata = APPEND_METADATA if mode == APPEND else ()
    if mode == UPSERT and values["delete.mode"] == SOFT:
        metadata = (*(c for c in metadata if c != DELETED), DELETED)
    else:
        metadata = tuple(c for c in metadata if c != DELETED)
    if mode == SCD2:
        if values["delete.mode"] == SOFT:
            raise ConfigError.invalid("delete.mode", SOFT, "write.mode=scd2 closes the version of a deleted row; use hard")
        metadata = (*(c for c in METADATA_COLUMNS if c in (*metadata, SEQ)), *VERSION_COLUMNS)
    sequence_by = _parse_sequence_by(values, mode)
    if sequence_by == SOURCE:
        metadata = tuple(c for c in METADATA_COLUMNS if c in (*metadata, SEQ))
    if values[BRANCH] != MAIN_BRANCH and values["table.format"] != ICEBERG:
        reason = f"{values['table.format']} tables have no branches; use table.format=iceberg"
        raise ConfigError.invalid(BRANCH, values[BRANCH], reason)
    keys = values["key.columns"]
    layout = replace(_parse_layout(values), properties=properties)
    return TableConfig(
        write_mode=mode,
        key_columns=tuple(keys) if isinstance(keys, list) else (),
        delete_mode=str(values["delete.mode"]),
        schema_evolution=str(values[EVOLUTION]),
        metadata_columns=metadata,
        keep_tombstones=values["append.tombstones"] == "keep",
        rescue_column=str(values["rescue.column"]),
        unavailable=str(values["unavailable.value.placeholder"]),
        unavailable_value=str(values["unavailable.value"]),
        replay=str(values["append.replay"]),
        delete_field=str(values["delete.field"]),
        layout=layout,
        max_index_keys=values["upsert.index.max.keys"],
        compaction_target_bytes=values["compaction.target.file.bytes"],
        compaction_min_files=values["compaction.min.files"],
        vacuum_interval_ms=values["vacuum.interval.ms"],
        sequence_by=sequence_by,
        deleted_retention_ms=values[DELETED_RETENTION],
        branch=values[BRANCH],
        schema=parse_schema_settings(values),
    )


def _parse_variants(values: Mapping[str, Any]) -> VariantColumns:
    names = frozenset(values[VARIANT_COLUMNS] or ())
    as_variant = values[JSON_COLUMNS] == "variant"
    for key, is_set in ((JSON_COLUMNS, as_variant), (VARIANT_COLUMNS, names)):
        if is_set and values["table.format"] != DELTA:
            given = "variant" if key == JSON_COLUMNS else ",".join(sorted(names))
            raise ConfigError.invalid(
                key, given, f"{values['table.format']} tables have no VARIANT columns; use table.format=delta"
            )
    if keys := sorted(names.intersection(values["key.columns"] or ())):
        raise ConfigError.invalid(VARIANT_COLUMNS, keys[0], "a key column identifies rows, and VARIANTs cannot be compared")
    parses_text = values["variant.text"] == "json"
    return VariantColumns(as_variant, names, parses_text, str(values["unavailable.value.placeholder"]))


def _transaction_table_config(common: TableConfig) -> TableConfig:
    """Of the table of transactions, given that of the others."""
    return replace(
        common,
        write_mode=UPSERT,
        key_columns=(TRANSACTION_KEY,),
        delete_mode=HARD,
        schema_evolution=ADD,
        metadata_columns=(),
        layout=replace(common.layout, partition_columns=(), cluster_columns=()),
        creates_table=True,
        sequence_by=LOG,
    )


def _parse_sequence_by(values: Mapping[str, Any], mode: str) -> str:
    chosen = str(values[SEQUENCE_BY])
    if chosen == LOG or (mode == APPEND and values["write.mode"] == BOTH):
        return LOG
    if mode == APPEND:
        raise ConfigError.invalid(
            SEQUENCE_BY, chosen, "write.mode=append keeps all changes; its metadata column __seq orders them"
        )
    if mode == SCD2:
        raise ConfigError.invalid(SEQUENCE_BY, chosen, "a late change would alter versions that are closed; scd2 needs log")
    if values[MISSING] == "keep":
        reason = f"{MISSING}=keep keeps columns that a record lacks, whose last values may arrive late; use null"
        raise ConfigError.invalid(SEQUENCE_BY, chosen, reason)
    if values["spark.remote"]:
        raise ConfigError.invalid(
            SEQUENCE_BY, chosen, "the worker must be able to write the tables, which it cannot with Spark Connect (spark.remote)"
        )
    return chosen


def _parse_layout(values: Mapping[str, Any]) -> WantedLayout:
    table_format = values["table.format"]
    found: list[tuple[str, ...]] = []
    for key in (PARTITION_COLUMNS, CLUSTER_COLUMNS):
        listed = values[key]
        names = whole_terms(listed) if isinstance(listed, list) else ()
        if names and table_format == ICEBERG and key == CLUSTER_COLUMNS:
            raise ConfigError.invalid(key, ",".join(names), f"Iceberg tables have no such layout; use {PARTITION_COLUMNS}")
        if names and table_format == PARQUET:
            raise ConfigError.invalid(key, ",".join(names), "parquet tables have no such layout; use table.format=delta")
        if table_format == ICEBERG:
            for name in names:
                parse_term(name)
        if len({name.lower() for name in names}) < len(names):
            raise ConfigError.invalid(key, ",".join(names), "a column is named twice")
        found.append(names)
    partition, cluster = found
    if partition and cluster:
        raise ConfigError.invalid(CLUSTER_COLUMNS, ",".join(cluster), f"a table has either these or {PARTITION_COLUMNS}")
    if len(cluster) > _MAX_CLUSTER_COLUMNS:
        raise ConfigError.invalid(CLUSTER_COLUMNS, ",".join(cluster), f"Delta allows {_MAX_CLUSTER_COLUMNS} columns")
    return WantedLayout(partition, cluster)


def whole_terms(parts: Sequence[str]) -> tuple[str, ...]:
    """The entries of a list in which some have commas between parentheses, such as ``bucket(id, 16)``."""
    terms: list[str] = []
    for part in parts:
        if terms and terms[-1].count("(") > terms[-1].count(")"):
            terms[-1] += f",{part}"
        else:
            terms.append(part)
    return tuple(terms)


def _parse_place(values: Mapping[str, Any]) -> tuple[str, str]:
    """Location and catalog of the tables; one of them is empty."""
    location, catalog, table_format = values["table.location"], values[CATALOG], values["table.format"]
    if catalog and table_format != ICEBERG:
        raise ConfigError.invalid(CATALOG, catalog, f"{table_format} tables are at a location; set table.location")
    if catalog and location:
        raise ConfigError.invalid(CATALOG, catalog, "the catalog places its tables; remove table.location")
    if catalog:
        return "", catalog
    if not location:
        other = f", or {CATALOG}" if table_format == ICEBERG else ""
        raise ConfigError.invalid("table.location", location, f"Expected the directory or URI of the tables{other}")
    location = _absolute(location)
    if table_format == ICEBERG and is_s3(location):
        raise ConfigError.invalid(
            "table.location", location, f"Iceberg needs a catalog to commit safely to tables on S3; set {CATALOG} instead"
        )
    return location, ""


def _warehouse(conf: Mapping[str, str], catalog: str) -> str:
    """Where a catalog puts its tables, as far as the connector's config says; perhaps only that it is on S3."""
    found = conf.get(f"spark.sql.catalog.{catalog.partition('.')[0]}.warehouse", "")
    return found or ("s3a://" if any(key.startswith(S3A_PREFIX) for key in conf) else "")


def _absolute(location: str) -> str:
    if "://" in location or location.startswith("file:"):
        return with_s3a_scheme(location.rstrip("/"))
    return str(Path(location).expanduser().absolute())
