"""The configuration of the sink as values, and the rules between its keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.errors import ConfigError
from connect.strict import is_strict
from connectors.jdbc.database import ConnectionSettings
from connectors.jdbc.flavor import ConnectorFlavor
from connectors.jdbc.options import Calendar, InsertMode, WriteOptions
from connectors.jdbc.sink.config_keys import PK_FIELDS_OF, config_def
from connectors.jdbc.sink.planner import PlanRules
from connectors.jdbc.sink.rows import COORDINATES, FieldRules, KeyMode
from connectors.jdbc.sink.table_names import TableNames, parse_mapping
from connectors.jdbc.sink.writer_config import SinkSettings
from connectors.jdbc.source.config_validators import check_dialect, zone_named
from connectors.jdbc.urls.connection_url import ConnectionTarget, parse_connection_url

_OWN_CONNECTION_KEYS = frozenset(
    ("connection.url", "connection.user", "connection.password", "connection.attempts", "connection.backoff.ms")
)
_DEFAULT_PROVIDER = "DefaultJdbcCredentialsProvider"
_UNIT_NS = {"microseconds": 1000, "nanoseconds": 1}


def parse_sink(config: Mapping[str, str], flavor: ConnectorFlavor) -> tuple[SinkSettings, PlanRules]:
    """What a configuration says. Raises ConfigError for the first key, or combination of keys, that is wrong."""
    v = config_def(flavor).parse(config)
    for key, problem in problems_between_keys(v, config, flavor):
        raise ConfigError(problem, key=key)
    zone = zone_named("db.timezone", v["db.timezone"])
    settings = SinkSettings(
        connection=ConnectionSettings(
            target_from(v, config),
            quotes=_quotes(v, config),
            attempts=v["connection.attempts"],
            backoff_ms=v["connection.backoff.ms"],
            statement_timeout_ms=v["statement.timeout.ms"],
            pool_size=1,
        ),
        insert_mode=_insert_mode(v),
        write=WriteOptions(
            zone=zone,
            date_zone=zone if v["date.timezone"].upper() == "DB_TIMEZONE" else zone_named("date.timezone", "UTC"),
            calendar=Calendar(v["date.calendar.system"].upper()),
            null_as_default=v["replace.null.with.default"],
            string_timestamps=frozenset(v["timestamp.fields.list"]),
            timestamp_unit_ns=_UNIT_NS[v["timestamp.precision.mode"].lower()],
            merge_holds_lock=v["mssql.use.merge.holdlock"],
            strict=is_strict(config),
        ),
        # The originals take 0 and write each record for itself.
        batch_rows=max(1, v["batch.size"]),
        creates_tables=v["auto.create"],
        adds_columns=v["auto.evolve"],
        table_kinds=_table_kinds(v, config, flavor),
        max_retries=v["max.retries"],
        retry_backoff_ms=v["retry.backoff.ms"],
        tolerates_refusals=(config.get("errors.tolerance") or "none").strip() == "all",
        shows_values=not v["trim.sensitive.log"],
    )
    rules = PlanRules(
        connector=config.get("name") or "",
        fields=FieldRules(
            key_mode=_key_mode(v),
            key_fields=tuple(v["pk.fields"]),
            key_fields_of=_key_fields_of(config),
            whitelist=frozenset(v["fields.whitelist"]),
            text_column=v["string.output.value.column.name"].strip(),
            null_as_default=v["replace.null.with.default"],
        ),
        tables=TableNames(
            v["table.name.format"].strip(),
            v["table.name.normalize"],
            parse_mapping("topics.to.tables.mapping", v["topics.to.tables.mapping"]),
        ),
        deletes=v["delete.enabled"],
    )
    return settings, rules


def target_from(values: Mapping[str, Any], config: Mapping[str, str]) -> ConnectionTarget:
    """The database that parsed values mean. Raises ConfigError."""
    properties = {
        key.removeprefix("connection."): value
        for key, value in config.items()
        if key.startswith("connection.") and key not in _OWN_CONNECTION_KEYS
    }
    password = values["connection.password"]
    target = parse_connection_url(
        values["connection.url"], values["connection.user"], password.value if password else None, properties
    )
    check_dialect(values["dialect.name"].strip(), target.url.get_backend_name())
    return target


def problems_between_keys(values: Mapping[str, Any], config: Mapping[str, str], flavor: ConnectorFlavor) -> list[tuple[str, str]]:
    """What is wrong with keys that are each right by themselves, as (key, text); keys that are wrong are None in ``values``."""
    found: list[tuple[str, str]] = []
    key_mode = _key_mode(values) if values["pk.mode"] else None
    if values["delete.enabled"] and key_mode not in (KeyMode.RECORD_KEY, None):
        text = {
            ConnectorFlavor.AIVEN: "Delete support only works with pk.mode=record_key",
            ConnectorFlavor.CONFLUENT: "Deletes are only supported for pk.mode record_key",
        }
        found.append(("delete.enabled", text[flavor]))
    if key_mode is KeyMode.NONE and values["insert.mode"]:
        mode = _insert_mode(values)
        if mode is not InsertMode.INSERT:
            found.append(
                (
                    "pk.mode",
                    f"Write in {mode.value.upper()} mode requires key field names to be known, check the primary key "
                    "configuration: pk.mode=record_key, record_value or kafka",
                )
            )
    found += _key_field_problems(values, config, key_mode, flavor)
    if values["fields.whitelist"] and (kept := set(values["timestamp.fields.list"] or ()) - set(values["fields.whitelist"])):
        found.append(("timestamp.fields.list", f"{', '.join(sorted(kept))}: fields.whitelist leaves it out"))
    provider = values["jdbc.credentials.provider.class"]
    if provider and not provider.endswith(_DEFAULT_PROVIDER):
        text_ = (
            f"{provider} cannot be used here; write connection.user and connection.password with a configuration provider "
            "(${file:...}, ${env:...}, ${directory:...})"
        )
        found.append(("jdbc.credentials.provider.class", text_))
    return found


def _key_field_problems(
    values: Mapping[str, Any], config: Mapping[str, str], key_mode: KeyMode | None, flavor: ConnectorFlavor
) -> list[tuple[str, str]]:
    given = values["pk.fields"] or []
    if flavor is ConnectorFlavor.AIVEN and key_mode is KeyMode.NONE and given:
        return [("pk.fields", "Primary key fields should not be set when pkMode is 'none'.")]
    if flavor is ConnectorFlavor.AIVEN and key_mode is KeyMode.KAFKA and len(given) != 3:
        return [
            ("pk.fields", "Primary key fields must be set with three fields (topic, partition, offset) when pkMode is 'kafka'.")
        ]
    found: list[tuple[str, str]] = []
    if key_mode is KeyMode.KAFKA:
        for names in (given, *_key_fields_of(config).values()):
            if len(names) not in (0, 3):
                text = (
                    f"PK mode is KAFKA so there should either be no field names defined for defaults [{', '.join(COORDINATES)}] "
                    f"to be applicable, or exactly 3, defined fields are: [{', '.join(names)}]"
                )
                found.append(("pk.fields", text))
    twice = sorted({name for name in given if list(given).count(name) > 1})
    if twice:
        found.append(("pk.fields", f"{', '.join(twice)}: named twice"))
    return found


def _key_fields_of(config: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {
        key.removeprefix(PK_FIELDS_OF): tuple(parse_value(key, value, ConfigType.LIST))
        for key, value in config.items()
        if key.startswith(PK_FIELDS_OF)
    }


def _key_mode(values: Mapping[str, Any]) -> KeyMode:
    return KeyMode(values["pk.mode"].lower())


def _insert_mode(values: Mapping[str, Any]) -> InsertMode:
    mode = values["insert.mode"].lower()
    # Aiven's multi is an INSERT of several rows, which is how every insert is written here.
    return InsertMode.INSERT if mode == "multi" else InsertMode(mode)


def _table_kinds(values: Mapping[str, Any], config: Mapping[str, str], flavor: ConnectorFlavor) -> frozenset[str] | None:
    if "table.types" in config:
        return frozenset(kind.upper() for kind in values["table.types"])
    return None if flavor is ConnectorFlavor.AIVEN else frozenset(("TABLE", "PARTITIONED TABLE"))


def _quotes(values: Mapping[str, Any], config: Mapping[str, str]) -> bool:
    """Confluent's key when it is set, else Aiven's; the defaults agree."""
    if "quote.sql.identifiers" in config:
        return bool(values["quote.sql.identifiers"].lower() == "always")
    return bool(values["sql.quote.identifiers"])
