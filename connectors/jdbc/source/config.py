"""The configuration of the source as values: what the rest of the source reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from connect.config.parsing import Password
from connect.data.schema import Type
from connect.errors import ConfigError
from connectors.jdbc.database import ConnectionSettings
from connectors.jdbc.flavor import ConnectorFlavor
from connectors.jdbc.options import Calendar, Granularity, NumericMapping, ReadOptions
from connectors.jdbc.source.config_keys import config_def
from connectors.jdbc.source.config_validators import check_dialect, pattern, zone_named
from connectors.jdbc.source.modes import Mode
from connectors.jdbc.source.record_keys import KeyRules, parse_key_columns
from connectors.jdbc.source.table_selection import Selection
from connectors.jdbc.urls.connection_url import ConnectionTarget, parse_connection_url

_OWN_CONNECTION_KEYS = frozenset(
    ("connection.url", "connection.user", "connection.password", "connection.attempts", "connection.backoff.ms")
)
_FAST_BATCH_ROWS = 5_000
_DEFAULT_PROVIDER = "DefaultJdbcCredentialsProvider"
_LIST_KEYS = ("table.whitelist", "table.blacklist", "table.include.list", "table.exclude.list")

ColumnMapping = tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class ModeSettings:
    """What an incremental mode goes by, and where it begins when no offset is stored."""

    mode: Mode
    number_column: str = ""
    number_mapping: ColumnMapping = ()
    time_columns: tuple[str, ...] = ()
    time_mapping: ColumnMapping = ()
    initial_number: int = -1
    initial_time_ms: int | None = 0
    """None: the database's clock at the first query."""
    delay_ms: int = 0
    validate_non_null: bool = True


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything, typed. ``repr`` shows no secret: queries and targets may hold some (promise 9)."""

    connection: ConnectionSettings
    mode: ModeSettings
    query: Password | None
    suffix: str
    query_attempts: int
    selection: Selection
    catalog: str | None
    schema: str | None
    kinds: tuple[str, ...]
    qualified: bool
    topic_prefix: str
    topic_format: str
    keys: KeyRules
    read: ReadOptions
    poll_interval_s: float
    batch_rows: int
    tables_interval_s: float
    tables_patience_s: float
    chunk_rows: int | None
    """Rows of a chunk; 0: as many as fits the table; None: tables are read in one piece."""
    query_is_masked: bool = False
    """Whether the query may be in no message: it is ``query.masked``."""

    @property
    def topic_of_query(self) -> str:
        return self.topic_prefix


def parse_settings(config: Mapping[str, str], flavor: ConnectorFlavor) -> Settings:
    """Typed settings. Raises ConfigError for the first key, or combination of keys, that is wrong."""
    v = config_def(flavor).parse(config)
    for key, problem in problems_between_keys(config, flavor):
        raise ConfigError(problem, key=key)
    target = target_from(config, flavor)
    check_dialect(v["dialect.name"].strip(), target.url.get_backend_name())
    return Settings(
        connection=ConnectionSettings(
            target,
            quotes=quotes(v["quote.sql.identifiers"], v["sql.quote.identifiers"]),
            attempts=v["connection.attempts"],
            backoff_ms=v["connection.backoff.ms"],
            statement_timeout_ms=v["statement.timeout.ms"],
            isolation=_isolation(v["transaction.isolation.mode"]),
            reads_only=True,
        ),
        mode=ModeSettings(
            Mode(v["mode"]),
            v["incrementing.column.name"],
            _number_mapping(v["incrementing.column.mapping"]),
            tuple(v["timestamp.column.name"]),
            _time_mapping(v["timestamp.columns.mapping"]),
            v["incrementing.initial"],
            _initial_time(config, v["timestamp.initial"], v["timestamp.initial.ms"]),
            v["timestamp.delay.interval.ms"],
            v["validate.non.null"],
        ),
        query=_query(v["query"], v["query.masked"]),
        suffix=v["query.suffix"].strip(),
        query_attempts=v["query.retry.attempts"],
        selection=Selection(*(tuple(v[name]) for name in _LIST_KEYS)),
        catalog=v["catalog.pattern"],
        schema=v["schema.pattern"],
        kinds=tuple(kind.upper() for kind in v["table.types"]),
        qualified=v["table.names.qualify"],
        topic_prefix=v["topic.prefix"],
        topic_format=v["topic.name.format"],
        keys=parse_key_columns(v["key.columns"], primitive=v["key.format"] == "primitive"),
        read=ReadOptions(
            zone_named("db.timezone", v["db.timezone"]),
            Granularity(v["timestamp.granularity"]),
            _numeric(v["numeric.mapping"], precision=v["numeric.precision.mapping"]),
            _UNSET_SCALES.get(v["numeric.unset.scale"]) or int(v["numeric.unset.scale"]),
            Calendar(v["date.calendar.system"].upper()),
            strict=v["conversion.strict"],
            decimal_precision=flavor is ConnectorFlavor.CONFLUENT,
            skip_unsupported=v["unsupported.columns"] == "skip",
            batch_rows=_FAST_BATCH_ROWS,
        ),
        poll_interval_s=v["poll.interval.ms"] / 1000,
        # The defaults of the originals are small. Who sets the key wants it kept; who does not wants speed.
        batch_rows=v["batch.max.rows"] if "batch.max.rows" in config else _FAST_BATCH_ROWS,
        tables_interval_s=v["table.poll.interval.ms"] / 1000,
        tables_patience_s=v["table.monitoring.startup.polling.limit.ms"] / 1000,
        chunk_rows={"off": None, "auto": 0}.get(v["snapshot.chunks"]) if v["snapshot.chunks"] in ("off", "auto")
        else int(v["snapshot.chunks"]),
        query_is_masked=bool(v["query.masked"] and v["query.masked"].value.strip()),
    )  # fmt: skip


_UNSET_SCALES = {"double": Type.FLOAT64, "string": Type.STRING}


def target_from(config: Mapping[str, str], flavor: ConnectorFlavor) -> ConnectionTarget:
    """The database that a configuration means. Raises ConfigError."""
    v = config_def(flavor).parse(config)
    properties = {
        key.removeprefix("connection."): value
        for key, value in config.items()
        if key.startswith("connection.") and key not in _OWN_CONNECTION_KEYS
    }
    password = v["connection.password"]
    return parse_connection_url(v["connection.url"], v["connection.user"], password.value if password else None, properties)


def require_file(target: ConnectionTarget) -> None:
    """Raises ConfigError for a database in a file that is not there: to open it would create it, and hide the typing error."""
    path = target.url.database
    if target.url.get_backend_name() not in ("sqlite", "duckdb") or not path or path.startswith((":", "file:", "md:")):
        return
    if not Path(path).exists():
        raise ConfigError(f"connection.url: there is no file {path}, so there is nothing to read", key="connection.url")


def quotes(mode: str | None, aiven: bool) -> bool:
    """Whether names are quoted: Confluent's key when it is set, else Aiven's, whose default is Confluent's."""
    return aiven if mode is None else mode.lower() == "always"


def problems_between_keys(config: Mapping[str, str], flavor: ConnectorFlavor) -> list[tuple[str, str]]:
    """What is wrong with keys that are each right by themselves, as (key, text)."""
    values = {entry.name: entry.value for entry in config_def(flavor).validate(config)}
    found: list[tuple[str, str]] = []

    def given(name: str) -> bool:
        value = values[name]
        return bool(value.value if isinstance(value, Password) else value)

    mode = values["mode"] or ""
    query = given("query") or given("query.masked")
    lists = [name for name in _LIST_KEYS if given(name)]
    if not given("connection.url"):
        found.append(("connection.url", "connection.url must be given, as jdbc:postgresql://host:5432/database"))
    if mode == "":
        found.append(("mode", "mode must be given: one of bulk, timestamp, incrementing, timestamp+incrementing"))
    if given("query") and given("query.masked"):
        found.append(("query.masked", "query and query.masked cannot both be given"))
    if query and lists:
        found.append((lists[0], f"{lists[0]} cannot be combined with a query, whose rows are all that is read then"))
    if given("table.whitelist") and given("table.blacklist"):
        found.append(("table.blacklist", "table.whitelist and table.blacklist cannot both be given"))
    if given("table.exclude.list") and not given("table.include.list"):
        found.append(("table.exclude.list", "table.exclude.list narrows table.include.list, which must be given too (.* is all)"))
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
            ("incrementing.column.mapping", "incrementing.column.name and incrementing.column.mapping cannot both be given")
        )
    if given("timestamp.column.name") and given("timestamp.columns.mapping"):
        found.append(("timestamp.columns.mapping", "timestamp.column.name and timestamp.columns.mapping cannot both be given"))
    if "timestamp" in mode and not (given("timestamp.column.name") or given("timestamp.columns.mapping")):
        found.append(("timestamp.column.name", f"mode={mode} needs timestamp.column.name (or timestamp.columns.mapping)"))
    if query and "incrementing" in mode and not given("incrementing.column.name"):
        found.append(("incrementing.column.name", f"a query in mode={mode} needs incrementing.column.name: it has no table"))
    if query and given("timestamp.columns.mapping"):
        found.append(("timestamp.columns.mapping", "a query has no table: use timestamp.column.name"))
    if values["table.names.qualify"] is False and "incrementing" in mode and not query and not given("incrementing.column.name"):
        found.append(
            ("incrementing.column.name", "table.names.qualify=false needs incrementing.column.name: which table it is in is open")
        )
    for key, parse in (("incrementing.column.mapping", _number_mapping), ("timestamp.columns.mapping", _time_mapping)):
        try:
            parse(values[key] or [])
        except ConfigError as e:
            found.append((key, e.message))
    try:
        parse_key_columns(str(values["key.columns"] or ""), primitive=values["key.format"] == "primitive")
    except ConfigError as e:
        found.append(("key.columns", e.message))
    return found


def _number_mapping(entries: object) -> ColumnMapping:
    return tuple(_mapping_entry("incrementing.column.mapping", text, listed=False) for text in _texts(entries))


def _time_mapping(entries: object) -> ColumnMapping:
    return tuple(_mapping_entry("timestamp.columns.mapping", text, listed=True) for text in _texts(entries))


def _texts(entries: object) -> list[str]:
    return [str(text) for text in entries] if isinstance(entries, list | tuple) else []


def _mapping_entry(key: str, text: str, *, listed: bool) -> tuple[re.Pattern[str], tuple[str, ...]]:
    expression, colon, columns = text.rpartition(":")
    columns = columns.strip()
    form = "<regex>:[<column>|<column>]" if listed else "<regex>:<column>"
    if not colon or not expression.strip() or not columns:
        raise ConfigError.invalid(key, text, f"expected {form}")
    if not listed:
        return pattern(key, expression.strip()), (columns,)
    if not (columns.startswith("[") and columns.endswith("]")):
        raise ConfigError.invalid(key, text, f"expected {form}")
    names = tuple(name.strip() for name in columns[1:-1].split("|"))
    if not all(names):
        raise ConfigError.invalid(key, text, f"expected {form}: a column's name is empty")
    return pattern(key, expression.strip()), names


def _query(query: str, masked: Password | None) -> Password | None:
    text = query.strip() or (masked.value.strip() if masked else "")
    return Password(text.rstrip(";").rstrip()) if text else None


def _isolation(mode: str) -> str | None:
    name = mode.upper()
    return {"DEFAULT": None, "SQL_SERVER_SNAPSHOT": "SNAPSHOT"}.get(name, name.replace("_", " "))


def _initial_time(config: Mapping[str, str], confluent: int | None, aiven: int) -> int | None:
    if "timestamp.initial.ms" in config and confluent is None:
        return aiven
    if confluent is None:
        return 0
    return None if confluent == -1 else confluent


def _numeric(mapping: str | None, *, precision: bool) -> NumericMapping:
    if mapping is not None:
        return NumericMapping(mapping.lower())
    return NumericMapping.PRECISION_ONLY if precision else NumericMapping.NONE
