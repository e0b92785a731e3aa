"""Keys of the Iceberg sink, and what they are in the Spark sink.

Source: documentation of the Iceberg sink for Kafka Connect 1.11, and of its predecessor by Tabular.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import at_least
from connect.errors import ConfigError
from connect.java.regex import RegexError, compile_java_regex
from connectors.spark import config as spark
from connectors.spark import config_keys
from connectors.spark.config import SparkSinkConfig, TableConfig, WantedLayout
from connectors.spark.partition_terms import PARTITION_COLUMNS, parse_term
from connectors.spark.routes import Routes
from connectors.spark.schema_settings import LENIENT

CATALOG, CATALOG_PREFIX = "iceberg.catalog", "iceberg.catalog."
HADOOP_PREFIX, KAFKA_PREFIX, TABLE_PREFIX = "iceberg.hadoop.", "iceberg.kafka.", "iceberg.table."
TABLES = "iceberg.tables"
DYNAMIC = "iceberg.tables.dynamic-enabled"
ROUTE_FIELD = "iceberg.tables.route-field"
ID_COLUMNS = "iceberg.tables.default-id-columns"
PARTITION_BY = "iceberg.tables.default-partition-by"
BRANCH = "iceberg.tables.default-commit-branch"
AUTO_CREATE = "iceberg.tables.auto-create-enabled"
EVOLVE = "iceberg.tables.evolve-schema-enabled"
CASE_INSENSITIVE = "iceberg.tables.schema-case-insensitive"
UPSERT_MODE = "iceberg.tables.upsert-mode-enabled"
CDC_FIELD = "iceberg.tables.cdc-field"
INTERVAL = "iceberg.control.commit.interval-ms"
CREATE_PROPS_PREFIX, WRITE_PROPS_PREFIX = "iceberg.tables.auto-create-props.", "iceberg.tables.write-props."
OPEN_PREFIXES = (CATALOG_PREFIX, HADOOP_PREFIX, KAFKA_PREFIX, TABLE_PREFIX, CREATE_PROPS_PREFIX, WRITE_PROPS_PREFIX)

_OWN_NAMES = {
    "key.columns": ID_COLUMNS,
    "commit.interval.ms": INTERVAL,
    PARTITION_COLUMNS: PARTITION_BY,
    "table.branch": BRANCH,
    "table.catalog": CATALOG,
}
"""By key of the Spark sink: the key that sets it."""
_REPLACED = (
    "table.format",
    "table.location",
    "table.catalog",
    "table.branch",
    "table.name.format",
    "commit.interval.ms",
    "partition.columns",
)
"""Keys of the Spark sink that the Iceberg sink has under other names."""
_OF_TABLE = ("route-regex", "id-columns", "partition-by", "commit-branch")
_WITHOUT_EFFECT = {
    "iceberg.tables.schema-force-optional": "Columns of new tables are always optional.",
    "iceberg.control.topic": "There is no control topic: each task commits its own offsets with its rows.",
    "iceberg.control.group-id": "There is no control topic.",
    "iceberg.control.group-id-prefix": "There is no control topic.",
    "iceberg.control.commit.timeout-ms": "No task waits for another one.",
    "iceberg.control.commit.threads": "A task commits its tables in parallel.",
    "iceberg.control.commit.max-consecutive-failures": "Commits are repeated like every RetriableError.",
    "iceberg.coordinator.transactional.prefix": "There is no control topic.",
    "iceberg.coordinator-executor-keep-alive-timeout-ms": "There is no coordinator.",
    "iceberg.connect.group-id": "The consumer group is connect-<name>.",
    "iceberg.hadoop-conf-dir": "Set HADOOP_CONF_DIR in the worker's environment instead.",
}


def config_def() -> ConfigDef:
    """Defines the keys: those of the Iceberg sink, and those of the Spark sink that have no counterpart there."""
    t, high, medium, low = ConfigType, Importance.HIGH, Importance.MEDIUM, Importance.LOW
    d = ConfigDef(removed=config_keys.REMOVED_KEYS)
    d.define(TABLES, t.LIST, "", importance=high, group="Iceberg",
             doc="Tables to write to, comma-separated. Without a route field, every record goes to each of them.")  # fmt: skip
    d.define(DYNAMIC, t.BOOLEAN, False, importance=high, group="Iceberg",
             doc="Whether the value of the route field, in lower case, is the name of the table.")  # fmt: skip
    d.define(ROUTE_FIELD, t.STRING, "", importance=high, group="Iceberg",
             doc="Field of the record value that chooses its tables; dots separate nested fields.")  # fmt: skip
    d.define(CATALOG, t.STRING, "iceberg", importance=high, group="Iceberg",
             doc="Name of the catalog. iceberg.catalog.<key> sets its properties.")  # fmt: skip
    d.define(ID_COLUMNS, t.LIST, "", importance=medium, group="Iceberg",
             doc="Columns that identify a row, unless write.mode=append.")  # fmt: skip
    d.define(PARTITION_BY, t.LIST, "", importance=medium, group="Iceberg",
             doc="Columns and transforms by which new tables are partitioned.")  # fmt: skip
    d.define(BRANCH, t.STRING, "", importance=low, group="Iceberg", doc="Branch that rows are committed to. Default: main.")
    d.define(AUTO_CREATE, t.BOOLEAN, False, importance=medium, group="Iceberg",
             doc="Whether tables that do not exist are created.")  # fmt: skip
    d.define(EVOLVE, t.BOOLEAN, False, importance=medium, group="Iceberg",
             doc="Whether columns are added and widened, like schema.evolution=widen. Otherwise new fields are left "
             "out.")  # fmt: skip
    d.define(CASE_INSENSITIVE, t.BOOLEAN, False, importance=low, group="Iceberg",
             doc="Whether columns are found by names that differ only in case.")  # fmt: skip
    d.define(UPSERT_MODE, t.BOOLEAN, False, importance=medium, group="Iceberg",
             doc="Whether a record replaces the row with its key, like write.mode=upsert.")  # fmt: skip
    d.define(CDC_FIELD, t.STRING, "", importance=low, group="Iceberg",
             doc="Field with the operation of a record (I, U, or D), such as _cdc.op. It sets write.mode=upsert. Not needed for "
             "change events with an envelope.")  # fmt: skip
    d.define(INTERVAL, t.LONG, 300_000, validator=at_least(0), importance=medium, group="Iceberg",
             doc="Time between commits of a table.")  # fmt: skip
    for key, reason in _WITHOUT_EFFECT.items():
        d.define(key, t.STRING, "", importance=low, group="Without effect", doc=f"Accepted without effect. {reason}")
    for own in config_keys.config_def().sorted_keys():
        if own.name not in _REPLACED:
            d.add(own)
    return d


def parse_config(props: Mapping[str, str]) -> SparkSinkConfig:
    """Parses the configuration. Raises ConfigError that names the key."""
    values = config_def().parse(props)
    _refuse_unsupported(props, values)
    routes = _parse_routes(props, values)
    with _naming(_OWN_NAMES):
        config = spark.parse_config(_spark_props(props, values), tables=routes.tables)
    common: dict[str, Any] = {
        "creates_table": values[AUTO_CREATE],
        "operation_field": tuple(filter(None, values[CDC_FIELD].split("."))),
        "ignores_case": values[CASE_INSENSITIVE],
    }
    changelog = None if config.changelog is None else replace(config.changelog, **common)
    if (table := next(filter(config.is_changelog, routes.tables), None)) is not None:
        way_out = f"the name is that of a changelog; leave it out, or set {config_keys.CHANGELOG_SUFFIX}"
        raise ConfigError.invalid(TABLES, table, way_out)
    config = replace(config, routes=routes, table=replace(config.table, **common), changelog=changelog)
    own = {table: _parse_table(props, table, config.of_table(table)) for table in _named_tables(props)}
    config = replace(config, tables=own)
    spark.check_schemas(config)
    return config


def _refuse_unsupported(props: Mapping[str, str], values: Mapping[str, Any]) -> None:
    if values[CDC_FIELD] and props.get("write.mode", config_keys.UPSERT) == config_keys.APPEND:
        raise ConfigError.invalid(CDC_FIELD, values[CDC_FIELD], "write.mode=append deletes no rows; remove one of both keys")
    if values[CDC_FIELD] and not all(values[CDC_FIELD].split(".")):
        raise ConfigError.invalid(CDC_FIELD, values[CDC_FIELD], "Expected the name of a field; dots separate nested fields")
    if values[CASE_INSENSITIVE] and props.get("schema.evolution") == LENIENT:
        raise ConfigError.invalid(CASE_INSENSITIVE, "true", "schema.evolution=lenient does not support it; use another one")
    for key, value in props.items():
        if key.startswith(TABLE_PREFIX) and key.rpartition(".")[2] not in _OF_TABLE:
            raise ConfigError.invalid(key, value, f"Expected iceberg.table.<table>. and one of {', '.join(_OF_TABLE)}")


def _parse_routes(props: Mapping[str, str], values: Mapping[str, Any]) -> Routes:
    tables, path = tuple(filter(None, dict.fromkeys(values[TABLES]))), tuple(filter(None, values[ROUTE_FIELD].split(".")))
    if values[DYNAMIC]:
        if not path:
            raise ConfigError.invalid(ROUTE_FIELD, "", f"{DYNAMIC}=true needs the field that has the name of the table")
        return Routes((), path)
    if not tables:
        raise ConfigError.invalid(TABLES, "", f"Expected at least one table, or {DYNAMIC}=true")
    patterns: dict[str, re.Pattern[str]] = {}
    for table in tables:
        key = f"{TABLE_PREFIX}{table}.route-regex"
        if key in props:
            try:
                patterns[table] = compile_java_regex(props[key])
            except RegexError as e:
                raise ConfigError.invalid(key, props[key], str(e)) from None
    return Routes(tables, path, patterns)


def _spark_props(props: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, str]:
    """The configuration of the Spark sink."""
    catalog = f"spark.sql.catalog.{values[CATALOG]}"
    found = {
        # What the Iceberg sink does unless the connector says otherwise.
        "metadata.columns": "none",
        "append.tombstones": "ignore",
        "schema.evolution": "widen" if values[EVOLVE] else "none",
        "write.mode": config_keys.UPSERT if values[UPSERT_MODE] or values[CDC_FIELD] else config_keys.APPEND,
        "key.columns": ",".join(filter(None, values[ID_COLUMNS])),
        f"spark.conf.{catalog}": "org.apache.iceberg.spark.SparkCatalog",
        **{key: value for key, value in props.items() if not key.startswith("iceberg.")},
        "table.format": "iceberg",
        "table.catalog": str(values[CATALOG]),
        # Routes name the tables.
        "table.name.format": "${topic}",
        "commit.interval.ms": str(values[INTERVAL]),
        "partition.columns": ",".join(values[PARTITION_BY]),
        "table.branch": values[BRANCH] or config_keys.MAIN_BRANCH,
    }
    for key, value in props.items():
        if key.startswith(CATALOG_PREFIX):
            found[f"spark.conf.{catalog}.{key.removeprefix(CATALOG_PREFIX)}"] = value
        elif key.startswith(HADOOP_PREFIX):
            found[f"spark.conf.spark.hadoop.{key.removeprefix(HADOOP_PREFIX)}"] = value
        elif key.startswith((CREATE_PROPS_PREFIX, WRITE_PROPS_PREFIX)):
            name = key.removeprefix(CREATE_PROPS_PREFIX).removeprefix(WRITE_PROPS_PREFIX)
            found[f"{config_keys.PROPERTIES_PREFIX}{name}"] = value
    return found


@contextlib.contextmanager
def _naming(names: Mapping[str, str]) -> Iterator[None]:
    """Raises the errors of keys of the Spark sink as those of the keys that they come from."""
    try:
        yield
    except ConfigError as e:
        own = names.get(e.key or "")
        if own is None:
            raise
        raise ConfigError(e.message.replace(f"for configuration {e.key}", f"for configuration {own}", 1), key=own) from e


def _named_tables(props: Mapping[str, str]) -> set[str]:
    keys = (key.removeprefix(TABLE_PREFIX) for key in props if key.startswith(TABLE_PREFIX))
    return {key.rpartition(".")[0] for key in keys}


def _parse_table(props: Mapping[str, str], table: str, common: TableConfig) -> TableConfig:
    """The settings of a table that has some of its own."""
    ids, terms = (_list(props.get(f"{TABLE_PREFIX}{table}.{name}")) for name in ("id-columns", "partition-by"))
    layout: WantedLayout = common.layout
    if terms is not None:
        layout = replace(layout, partition_columns=spark.whole_terms(terms))
        with _naming({PARTITION_COLUMNS: f"{TABLE_PREFIX}{table}.partition-by"}):
            for term in layout.partition_columns:
                parse_term(term)
    keys = common.key_columns if ids is None else tuple(ids)
    branch = props.get(f"{TABLE_PREFIX}{table}.commit-branch") or common.branch
    return replace(common, key_columns=keys, layout=layout, branch=branch)


def _list(text: str | None) -> Sequence[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
