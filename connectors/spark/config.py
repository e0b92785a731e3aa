"""Configuration of the Spark sink: typed values of its keys."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from connect.config.validators import at_least
from connect.errors import ConfigError
from connectors.spark.config_keys import (
    APPEND,
    APPEND_METADATA,
    AUTO,
    BOTH,
    BRANCH,
    CATALOG,
    CHANGELOG_SUFFIX,
    CLUSTER_COLUMNS,
    COLUMN_MAPPING,
    COLUMN_MAPPING_DEFAULT,
    CONF_PREFIX,
    DELETED,
    DELETED_RETENTION,
    DELTA,
    ENGINE,
    EXECUTORS,
    FORMAT_VERSION,
    FRESHNESS,
    FRESHNESS_PREFIX,
    FRESHNESS_SUFFIX,
    ICEBERG,
    JSON_COLUMNS,
    LOG,
    MAIN_BRANCH,
    METADATA_COLUMNS,
    PARQUET,
    PROPERTIES_PREFIX,
    SCD2,
    SEQ,
    SEQUENCE_BY,
    SOFT,
    SOURCE,
    SOURCE_VARIABLES,
    UNAVAILABLE,
    UPSERT,
    VARIABLE,
    VARIANT_COLUMNS,
    VERSION_COLUMNS,
    WORKER,
    config_def,
)
from connectors.spark.masters import is_local
from connectors.spark.partition_terms import PARTITION_COLUMNS, parse_term
from connectors.spark.routes import Routes
from connectors.spark.s3_settings import S3A_PREFIX, S3Settings, is_s3, read_s3_settings, with_s3a_scheme
from connectors.spark.schema_settings import (
    ADD,
    EVOLUTION,
    EVOLUTION_PREFIX,
    LENIENT,
    MISSING,
    NONE,
    WIDEN,
    OfTable,
    SchemaSettings,
    check_renames,
    parse_schema_settings,
    parse_table_keys,
)
from connectors.spark.variant_columns import NO_VARIANTS, VariantColumns

_PARQUET_SCHEMES = frozenset({"file", "s3", "s3a", "s3n", "gs", "gcs"})
_MAX_CLUSTER_COLUMNS = 4
_NOT_WIDER = "readers of parquet tables expect one type; use table.format=delta"


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


REBASE_IN_READ = "spark.sql.parquet.datetimeRebaseModeInRead"
REQUIRED_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    REBASE_IN_READ: "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""Settings of every session, on which the rows that are written and read depend."""
_INSTEAD = {
    "spark.sql.session.timeZone": "; a query converts times with from_utc_timestamp and to_utc_timestamp",
    "spark.sql.ansi.enabled": "; a query replaces values that do not fit with try_cast, try_divide, and other try_ functions",
}


def parse_spark_config(
    values: Mapping[str, Any], conf: Mapping[str, str], s3: S3Settings | None, *, free: Collection[str] = ()
) -> SparkConfig:
    """How to connect to Spark, from parsed keys and the settings of ``spark.conf.``. Raises ConfigError if one has another value
    than the required one, unless it is ``free``."""
    for key, required in REQUIRED_SETTINGS.items():
        given = conf.get(key, required)
        if given != required and key not in free:
            what = f"Expected {required}, on which written and read values depend. Remove the key{_INSTEAD.get(key, '')}"
            raise ConfigError.invalid(CONF_PREFIX + key, given, what)
    return SparkConfig(
        master=values["spark.master"],
        remote=values["spark.remote"],
        conf=tuple(sorted(conf.items())),
        jars=tuple(values["spark.jars"]),
        linger_ms=values["spark.linger.ms"],
        executors_timeout_ms=values["spark.executors.timeout.ms"],
        s3=s3,
    )


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
    plain_names: bool = False
    """Whether they are Delta tables without column mapping, which allow few characters in names."""


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
    def leaves_fields_out(self) -> bool:
        """Whether fields that have no column are left out."""
        return self.schema_evolution == NONE

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
    tables: Mapping[str, TableConfig] = field(default_factory=dict)
    """By name: the settings of tables that have some of their own."""
    table_schemas: Mapping[str, OfTable] = field(default_factory=dict)
    """By name: how the schemas of some tables change."""

    @property
    def may_use_executors(self) -> bool:
        """Whether Spark's executors may decode and write."""
        if self.engine == AUTO:
            is_remote = bool(self.spark.remote) or is_local(self.spark.master)
            return not is_remote and self.table_format != PARQUET
        return self.engine == EXECUTORS

    def of_table(self, name: str) -> TableConfig:
        """The settings of the table with this name."""
        found = self.tables.get(name)
        if found is None:
            found = self.changelog if self.changelog is not None and self.is_changelog(name) else self.table
        own = self.table_schemas.get(name)
        return found if own is None else found.with_own(own)

    def settings(self) -> list[TableConfig]:
        """The settings of all tables, each once."""
        named = [self.of_table(name) for name in {**self.tables, **self.table_schemas}]
        return [self.table, *([] if self.changelog is None else [self.changelog]), *named]

    def is_changelog(self, name: str) -> bool:
        """Whether a table has this name as the changelog of another one."""
        return self.changelog is not None and name.endswith(self.changelog_suffix)

    def changelog_of(self, table: str) -> str | None:
        """The name of the changelog of a current table; None without changelogs."""
        return None if self.changelog is None else table + self.changelog_suffix

    def current_table_of(self, table: str) -> str:
        """The name of the current table to which a table belongs: itself, unless it is a changelog."""
        return table.removesuffix(self.changelog_suffix) if self.is_changelog(table) else table

    @property
    def names_need_source(self) -> bool:
        """True when the table name depends on the source block of the record, not only on its topic."""
        return self.routes is None and any(v in SOURCE_VARIABLES for v in VARIABLE.findall(self.name_format))

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

        name = VARIABLE.sub(value, self.name_format)
        if name in (".", "..", ""):
            raise ConfigError.invalid("table.name.format", self.name_format, f"results in the name {name!r} for topic {topic}")
        if self.is_changelog(name):
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
    properties = tuple(
        (k.removeprefix(PROPERTIES_PREFIX), v) for k, v in sorted(props.items()) if k.startswith(PROPERTIES_PREFIX)
    )
    for prefix in (PROPERTIES_PREFIX, CONF_PREFIX):
        if prefix in props:
            raise ConfigError.invalid(prefix, props[prefix], f"Unknown key; expected {prefix}<key>")
    if properties and values["table.format"] == PARQUET:
        raise ConfigError.invalid(PROPERTIES_PREFIX + properties[0][0], properties[0][1], "parquet tables have no properties")
    merges = values["compaction.min.files"] != 0
    for key in ("compaction.target.file.bytes", "compaction.min.files"):
        if key in props and merges and values["table.format"] == PARQUET:
            raise ConfigError.invalid(key, props[key], "files of parquet tables are not merged; remove it, and set freshness.ms")
    mapping = dict(properties).get(COLUMN_MAPPING, dict(spark.conf).get(COLUMN_MAPPING_DEFAULT, "none"))
    has_plain_names = values["table.format"] == DELTA and mapping == "none"
    config = SparkSinkConfig(
        connector=props.get("name", "spark-sink"),
        spark=spark,
        table_format=values["table.format"],
        location=location,
        catalog=catalog,
        name_format=values["table.name.format"],
        table=_parse_table_config(values, UPSERT if is_both else mode, properties, plain_names=has_plain_names),
        changelog=_parse_table_config(values, APPEND, properties, plain_names=has_plain_names) if is_both else None,
        changelog_suffix=values[CHANGELOG_SUFFIX],
        freshness_ms=values[FRESHNESS],
        table_freshness_ms=_parse_table_freshness(props),
        commit_interval_ms=values["commit.interval.ms"],
        commit_max_records=values["commit.max.records"],
        commit_max_bytes=values["commit.max.bytes"],
        engine=values[ENGINE],
        executors_min_records=values["executors.min.records"],
        executors_max_records=values["executors.max.records"],
        variants=_parse_variants(values, dict(properties)),
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


def _parse_table_config(
    values: Mapping[str, Any], mode: str, properties: tuple[tuple[str, str], ...], *, plain_names: bool
) -> TableConfig:
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
    if mode != APPEND and isinstance(keys, list) and values["delete.field"] in filter(None, keys):
        raise ConfigError.invalid("delete.field", values["delete.field"], "it is no column, so it cannot be one of key.columns")
    layout = replace(_parse_layout(values), properties=properties, plain_names=plain_names)
    return TableConfig(
        write_mode=mode,
        key_columns=tuple(filter(None, keys)) if isinstance(keys, list) else (),
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


def _parse_variants(values: Mapping[str, Any], properties: Mapping[str, str]) -> VariantColumns:
    names = frozenset(values[VARIANT_COLUMNS] or ())
    as_variant = values[JSON_COLUMNS] == "variant"
    for key, is_set in ((JSON_COLUMNS, as_variant), (VARIANT_COLUMNS, names)):
        if is_set and (problem := _lack_of_variants(values["table.format"], properties)):
            raise ConfigError.invalid(key, "variant" if key == JSON_COLUMNS else ",".join(sorted(names)), problem)
    if keys := sorted(names.intersection(values["key.columns"] or ())):
        raise ConfigError.invalid(VARIANT_COLUMNS, keys[0], "a key column identifies rows, and VARIANTs cannot be compared")
    parses_text = values["variant.text"] == "json"
    return VariantColumns(as_variant, names, parses_text, str(values["unavailable.value.placeholder"]))


def _lack_of_variants(table_format: str, properties: Mapping[str, str]) -> str:
    """Why new tables cannot have VARIANT columns; empty if they can."""
    if table_format == PARQUET:
        return "parquet tables have no VARIANT columns; use table.format=delta or iceberg"
    version = properties.get(FORMAT_VERSION)
    if table_format == ICEBERG and version in ("1", "2"):
        return (
            f"Iceberg tables of format version {version} ({PROPERTIES_PREFIX}{FORMAT_VERSION}) have no VARIANT columns; set it "
            "to 3, or remove it"
        )
    return ""


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
        elif part:
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
    scheme, is_uri, _ = location.partition("://")
    if table_format == PARQUET and is_uri and scheme not in _PARQUET_SCHEMES:
        expected = "Expected a directory, s3://, or gs:// for Parquet: nothing else keeps two tasks from writing the same records"
        raise ConfigError.invalid("table.location", location, expected)
    return location, ""


def _warehouse(conf: Mapping[str, str], catalog: str) -> str:
    """Where a catalog puts its tables, as far as the connector's config says; perhaps only that it is on S3."""
    found = conf.get(f"spark.sql.catalog.{catalog.partition('.')[0]}.warehouse", "")
    return found or ("s3a://" if any(key.startswith(S3A_PREFIX) for key in conf) else "")


def _absolute(location: str) -> str:
    if "://" in location or location.startswith("file:"):
        return with_s3a_scheme(location.rstrip("/"))
    return str(Path(location).expanduser().absolute())
