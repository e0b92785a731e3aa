"""Typed configuration of the JDBC source, and the rules between its keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from connect.config.parsing import Password
from connect.data.schema import Type
from connect.errors import ConfigError
from connectors.jdbc.config_validators import check_dialect, compile_pattern, parse_zone
from connectors.jdbc.database import ConnectionSettings
from connectors.jdbc.flavor import ConnectorFlavor
from connectors.jdbc.options import Calendar, Granularity, NumericMapping, ReadOptions
from connectors.jdbc.source.config_keys import config_def
from connectors.jdbc.source.modes import Mode
from connectors.jdbc.source.record_keys import RecordKeyConfig, parse_record_keys
from connectors.jdbc.source.table_selection import TableFilter
from connectors.jdbc.urls.connection_url import ConnectionTarget, parse_connection_url

_OWN_CONNECTION_KEYS = frozenset(
    ("connection.url", "connection.user", "connection.password", "connection.attempts", "connection.backoff.ms")
)
_FAST_BATCH_ROWS = 5_000
_DEFAULT_PROVIDER = "DefaultJdbcCredentialsProvider"
_LIST_KEYS = ("table.whitelist", "table.blacklist", "table.include.list", "table.exclude.list")

ColumnMapping = tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class ModeConfig:
    """The mode, its columns, and where it starts if no offset is stored."""

    mode: Mode
    incrementing_column: str = ""
    incrementing_mapping: ColumnMapping = ()
    timestamp_columns: tuple[str, ...] = ()
    timestamp_mapping: ColumnMapping = ()
    initial_incrementing: int = -1
    initial_timestamp_ms: int | None = 0
    """None: the database's time at the first query."""
    delay_ms: int = 0
    validate_non_null: bool = True


@dataclass(frozen=True, slots=True)
class JdbcSourceConfig:
    """All typed values. ``repr`` shows no secrets, which queries and targets may contain (promise 9)."""

    connection: ConnectionSettings
    mode: ModeConfig
    query: Password | None
    suffix: str
    query_attempts: int
    table_filter: TableFilter
    catalog: str | None
    schema: str | None
    table_types: tuple[str, ...]
    qualifies_names: bool
    topic_prefix: str
    topic_format: str
    keys: RecordKeyConfig
    read: ReadOptions
    poll_interval_s: float
    batch_rows: int
    table_poll_interval_s: float
    table_startup_timeout_s: float
    chunk_rows: int | None
    """Rows per chunk; 0: chosen automatically; None: no chunks."""
    query_is_masked: bool = False
    """Whether messages must not contain the query, because it is ``query.masked``."""


def parse_source_config(config: Mapping[str, str], flavor: ConnectorFlavor) -> JdbcSourceConfig:
    """Parses a configuration. Raises ConfigError for the first invalid key or conflict."""
    v = config_def(flavor).parse(config)
    for key, problem in find_key_conflicts(config, flavor):
        raise ConfigError(problem, key=key)
    target = parse_target(config, flavor)
    check_dialect(v["dialect.name"].strip(), target.url.get_backend_name())
    return JdbcSourceConfig(
        connection=ConnectionSettings(
            target,
            quotes=quotes_identifiers(v["quote.sql.identifiers"], v["sql.quote.identifiers"]),
            attempts=v["connection.attempts"],
            backoff_ms=v["connection.backoff.ms"],
            statement_timeout_ms=v["statement.timeout.ms"],
            isolation=_parse_isolation(v["transaction.isolation.mode"]),
            reads_only=True,
        ),
        mode=ModeConfig(
            Mode(v["mode"]),
            v["incrementing.column.name"],
            _parse_incrementing_mapping(v["incrementing.column.mapping"]),
            tuple(v["timestamp.column.name"]),
            _parse_timestamp_mapping(v["timestamp.columns.mapping"]),
            v["incrementing.initial"],
            _parse_initial_timestamp(config, v["timestamp.initial"], v["timestamp.initial.ms"]),
            v["timestamp.delay.interval.ms"],
            v["validate.non.null"],
        ),
        query=_parse_query(v["query"], v["query.masked"]),
        suffix=v["query.suffix"].strip(),
        query_attempts=v["query.retry.attempts"],
        table_filter=TableFilter(*(tuple(v[name]) for name in _LIST_KEYS)),
        catalog=v["catalog.pattern"],
        schema=v["schema.pattern"],
        table_types=tuple(name.upper() for name in v["table.types"]),
        qualifies_names=v["table.names.qualify"],
        topic_prefix=v["topic.prefix"],
        topic_format=v["topic.name.format"],
        keys=parse_record_keys(v["key.columns"], primitive=v["key.format"] == "primitive"),
        read=ReadOptions(
            parse_zone("db.timezone", v["db.timezone"]),
            Granularity(v["timestamp.granularity"]),
            _parse_numeric_mapping(v["numeric.mapping"], precision=v["numeric.precision.mapping"]),
            _UNSET_SCALES.get(v["numeric.unset.scale"]) or int(v["numeric.unset.scale"]),
            Calendar(v["date.calendar.system"].upper()),
            strict=v["conversion.strict"],
            decimal_precision=flavor is ConnectorFlavor.CONFLUENT,
            skip_unsupported=v["unsupported.columns"] == "skip",
            batch_rows=_FAST_BATCH_ROWS,
        ),
        poll_interval_s=v["poll.interval.ms"] / 1000,
        # Confluent's and Aiven's defaults are small. The key counts if it is set; otherwise the fastest size does.
        batch_rows=v["batch.max.rows"] if "batch.max.rows" in config else _FAST_BATCH_ROWS,
        table_poll_interval_s=v["table.poll.interval.ms"] / 1000,
        table_startup_timeout_s=v["table.monitoring.startup.polling.limit.ms"] / 1000,
        chunk_rows={"off": None, "auto": 0}.get(v["snapshot.chunks"]) if v["snapshot.chunks"] in ("off", "auto")
        else int(v["snapshot.chunks"]),
        query_is_masked=bool(v["query.masked"] and v["query.masked"].value.strip()),
    )  # fmt: skip


_UNSET_SCALES = {"double": Type.FLOAT64, "string": Type.STRING}


def parse_target(config: Mapping[str, str], flavor: ConnectorFlavor) -> ConnectionTarget:
    """Parses the connection target. Raises ConfigError."""
    v = config_def(flavor).parse(config)
    properties = {
        key.removeprefix("connection."): value
        for key, value in config.items()
        if key.startswith("connection.") and key not in _OWN_CONNECTION_KEYS
    }
    password = v["connection.password"]
    return parse_connection_url(v["connection.url"], v["connection.user"], password.value if password else None, properties)


def quotes_identifiers(mode: str | None, aiven: bool) -> bool:
    """Returns whether names are quoted: Confluent's key if set, otherwise Aiven's, which has the same default."""
    return aiven if mode is None else mode.lower() == "always"


def find_key_conflicts(config: Mapping[str, str], flavor: ConnectorFlavor) -> list[tuple[str, str]]:
    """Returns conflicts between valid keys as (key, message)."""
    values = {entry.name: entry.value for entry in config_def(flavor).validate(config)}
    found: list[tuple[str, str]] = []

    def given(name: str) -> bool:
        value = values[name]
        return bool(value.value if isinstance(value, Password) else value)

    mode = values["mode"] or ""
    query = given("query") or given("query.masked")
    lists = [name for name in _LIST_KEYS if given(name)]
    if not given("connection.url"):
        found.append(("connection.url", "connection.url must be set, for example jdbc:postgresql://host:5432/database"))
    if mode == "":
        found.append(("mode", "mode must be set to one of bulk, timestamp, incrementing, timestamp+incrementing"))
    if given("query") and given("query.masked"):
        found.append(("query.masked", "query and query.masked cannot both be set"))
    if query and lists:
        found.append((lists[0], f"{lists[0]} cannot be combined with a query, because no tables are read"))
    if given("table.whitelist") and given("table.blacklist"):
        found.append(("table.blacklist", "table.whitelist and table.blacklist cannot both be set"))
    if given("table.exclude.list") and not given("table.include.list"):
        found.append(("table.exclude.list", "table.exclude.list needs table.include.list (.* for all tables)"))
    if (given("table.include.list") or given("table.exclude.list")) and (given("table.whitelist") or given("table.blacklist")):
        found.append(("table.include.list", "table.include.list cannot be combined with table.whitelist or table.blacklist"))
    found += _mode_problems(values, mode, query=query, given=given)
    provider = values["jdbc.credentials.provider.class"]
    if provider and not provider.endswith(_DEFAULT_PROVIDER):
        found.append(
            (
                "jdbc.credentials.provider.class",
                f"{provider} cannot be used here; write connection.user and connection.password with a configuration provider "
                "(${file:...}, ${env:...}, ${directory:...})",
            )
        )
    return found


def _mode_problems(values: Mapping[str, object], mode: str, *, query: bool, given: object) -> list[tuple[str, str]]:
    assert callable(given)
    found: list[tuple[str, str]] = []
    if given("incrementing.column.name") and given("incrementing.column.mapping"):
        found.append(
            ("incrementing.column.mapping", "incrementing.column.name and incrementing.column.mapping cannot both be set")
        )
    if given("timestamp.column.name") and given("timestamp.columns.mapping"):
        found.append(("timestamp.columns.mapping", "timestamp.column.name and timestamp.columns.mapping cannot both be set"))
    if "timestamp" in mode and not (given("timestamp.column.name") or given("timestamp.columns.mapping")):
        found.append(("timestamp.column.name", f"mode={mode} needs timestamp.column.name (or timestamp.columns.mapping)"))
    if query and "incrementing" in mode and not given("incrementing.column.name"):
        found.append(("incrementing.column.name", f"a query in mode={mode} needs incrementing.column.name"))
    if query and given("timestamp.columns.mapping"):
        found.append(("timestamp.columns.mapping", "a query needs timestamp.column.name, because it has no table"))
    if values["table.names.qualify"] is False and "incrementing" in mode and not query and not given("incrementing.column.name"):
        found.append(
            (
                "incrementing.column.name",
                "table.names.qualify=false needs incrementing.column.name, because the table is not known",
            )
        )
    for key, parse in (
        ("incrementing.column.mapping", _parse_incrementing_mapping),
        ("timestamp.columns.mapping", _parse_timestamp_mapping),
    ):
        try:
            parse(values[key] or [])
        except ConfigError as e:
            found.append((key, e.message))
    try:
        parse_record_keys(str(values["key.columns"] or ""), primitive=values["key.format"] == "primitive")
    except ConfigError as e:
        found.append(("key.columns", e.message))
    return found


def _parse_incrementing_mapping(entries: object) -> ColumnMapping:
    return tuple(_parse_mapping_entry("incrementing.column.mapping", text, listed=False) for text in _to_texts(entries))


def _parse_timestamp_mapping(entries: object) -> ColumnMapping:
    return tuple(_parse_mapping_entry("timestamp.columns.mapping", text, listed=True) for text in _to_texts(entries))


def _to_texts(entries: object) -> list[str]:
    return [str(text) for text in entries] if isinstance(entries, list | tuple) else []


def _parse_mapping_entry(key: str, text: str, *, listed: bool) -> tuple[re.Pattern[str], tuple[str, ...]]:
    expression, colon, columns = text.rpartition(":")
    columns = columns.strip()
    form = "<regex>:[<column>|<column>]" if listed else "<regex>:<column>"
    if not colon or not expression.strip() or not columns:
        raise ConfigError.invalid(key, text, f"expected {form}")
    if not listed:
        return compile_pattern(key, expression.strip()), (columns,)
    if not (columns.startswith("[") and columns.endswith("]")):
        raise ConfigError.invalid(key, text, f"expected {form}")
    names = tuple(name.strip() for name in columns[1:-1].split("|"))
    if not all(names):
        raise ConfigError.invalid(key, text, f"expected {form}: a column name is empty")
    return compile_pattern(key, expression.strip()), names


def _parse_query(query: str, masked: Password | None) -> Password | None:
    text = query.strip() or (masked.value.strip() if masked else "")
    return Password(text.rstrip(";").rstrip()) if text else None


def _parse_isolation(mode: str) -> str | None:
    name = mode.upper()
    return {"DEFAULT": None, "SQL_SERVER_SNAPSHOT": "SNAPSHOT"}.get(name, name.replace("_", " "))


def _parse_initial_timestamp(config: Mapping[str, str], confluent: int | None, aiven: int) -> int | None:
    if "timestamp.initial.ms" in config and confluent is None:
        return aiven
    if confluent is None:
        return 0
    return None if confluent == -1 else confluent


def _parse_numeric_mapping(mapping: str | None, *, precision: bool) -> NumericMapping:
    if mapping is not None:
        return NumericMapping(mapping.lower())
    return NumericMapping.PRECISION_ONLY if precision else NumericMapping.NONE
