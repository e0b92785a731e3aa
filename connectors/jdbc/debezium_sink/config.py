"""The configuration of Debezium's JDBC sink as values, and the rules between its keys."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.errors import ConfigError
from connect.java.regex import compile_java_regex
from connect.strict import is_strict
from connectors.jdbc.database import ConnectionSettings
from connectors.jdbc.debezium_sink.config_keys import EVOLUTIONS, config_def
from connectors.jdbc.debezium_sink.naming import CollectionNames, FieldFilter
from connectors.jdbc.debezium_sink.rules import KeyMode, Rules
from connectors.jdbc.options import Calendar, InsertMode, WriteOptions
from connectors.jdbc.sink.writer_config import SinkSettings
from connectors.jdbc.urls.connection_url import ConnectionTarget, parse_connection_url

log = logging.getLogger(__name__)

_PASSTHROUGH = "PassthroughCollectionNamingStrategy"
_RENAMED = {
    "collection.name.format": "table.name.format",
    "collection.naming.strategy": "table.naming.strategy",
    "use.time.zone": "database.time_zone",
}
"""Keys by what they were called before; the new name counts when both are set."""
_HIBERNATE_CHANGES = (
    "hibernate.default_schema", "hibernate.default_catalog", "hibernate.globally_quoted_identifiers", "hibernate.jdbc.time_zone",
    "hibernate.physical_naming_strategy", "hibernate.implicit_naming_strategy", "hibernate.dialect", "hibernate.connection.",
    "hibernate.type.",
)  # fmt: skip
"""Begins the keys of Hibernate with which the original would write something else, or elsewhere."""


def parse_debezium(config: Mapping[str, str]) -> tuple[SinkSettings, Rules]:
    """What a configuration says. Raises ConfigError for the first key, or combination of keys, that is wrong."""
    v = config_def().parse(config)
    for key, problem in problems_between_keys(v, config):
        raise ConfigError(problem, key=key)
    for key, old in _RENAMED.items():
        if key not in config and old in config:
            v[key] = v[old]
    evolves = v["schema.evolution"].strip().lower() == "basic"
    mode = _insert_mode(v)
    settings = SinkSettings(
        connection=ConnectionSettings(
            target_from(v),
            attempts=v["connection.attempts"],
            backoff_ms=v["connection.backoff.ms"],
            statement_timeout_ms=v["statement.timeout.ms"],
            pool_size=1,
        ),
        insert_mode=mode,
        # Debezium's days are proleptic, and a null is null although its field has a default.
        write=WriteOptions(
            calendar=Calendar.PROLEPTIC_GREGORIAN, null_as_default=False, strict=is_strict(config), overrides_identity=True
        ),
        batch_rows=max(1, v["batch.size"]),
        creates_tables=evolves,
        adds_columns=evolves,
        max_retries=max(0, v["flush.max.retries"]),
        retry_backoff_ms=max(0, v["flush.retry.delay.ms"]),
        tolerates_refusals=(config.get("errors.tolerance") or "none").strip() == "all",
        knows_type_names=True,
        creating_key="schema.evolution=basic",
        adding_key="schema.evolution=basic",
        retries_key="flush.max.retries",
    )
    rules = Rules(
        key_mode=_key_mode(v),
        key_fields=_key_fields(v),
        fields=_field_filter(v),
        names=CollectionNames(v["collection.name.format"] or "${topic}", v["collection.naming.strategy"].endswith(_PASSTHROUGH)),
        insert_mode=mode,
        deletes=v["delete.enabled"],
        truncates=v["truncate.enabled"],
        keeps_case=v["quote.identifiers"],
        cloud_events=compile_java_regex(v["cloud.events.schema.name.pattern"]),
        unavailable=v["unavailable.value.placeholder"],
        postgis_schema=v["dialect.postgres.postgis.schema"] or "public",
        looks_at_start=_given_topics(config) if v["schema.evolution"].strip().lower() == EVOLUTIONS[2] else (),
    )
    return settings, rules


def warn_of_hibernate(config: Mapping[str, str]) -> None:
    """Logs the keys of Hibernate that have no effect here and would have one in the original."""
    for key in sorted(config):
        if key.startswith(_HIBERNATE_CHANGES):
            log.warning("%s has no effect here, and the original may write something else with it", key)


def target_from(values: Mapping[str, Any]) -> ConnectionTarget:
    """The database that parsed values mean. Raises ConfigError."""
    password = values["connection.password"]
    return parse_connection_url(
        values["connection.url"].strip(), values["connection.username"], password.value if password else None, {}
    )


def problems_between_keys(values: Mapping[str, Any], config: Mapping[str, str]) -> list[tuple[str, str]]:
    """What is wrong with keys that are each right by themselves, as (key, text); keys that are wrong are None in ``values``."""
    found: list[tuple[str, str]] = []
    if not (values["connection.url"] or "").strip():
        found.append(
            ("connection.url", f"The 'connection.url' value '{values['connection.url'] or ''}' is invalid: A value is required")
        )
    key_mode = _key_mode(values) if values["primary.key.mode"] else None
    mode = _insert_mode(values) if values["insert.mode"] else None
    if values["delete.enabled"] and key_mode in (KeyMode.NONE, KeyMode.KAFKA):
        found.append(
            (
                "delete.enabled",
                "When 'delete.enabled' is set to 'true', the 'primary.key.mode' option must be set to 'record_key', "
                "'record_value', or 'record_header'.",
            )
        )
    if key_mode is KeyMode.NONE and mode in (InsertMode.UPSERT, InsertMode.UPDATE):
        also = "" if values["primary.key.fields"] or "primary.key.mode" in config else " and 'primary.key.fields'"
        found.append(
            (
                "primary.key.mode",
                f"When using {mode.name}, please define 'primary.key.mode'{also}: record_key, record_value, record_header, kafka",
            )
        )
    if values["field.include.list"] and values["field.exclude.list"]:
        found.append(
            ("field.exclude.list", "Cannot define both column.exclude.list and column.include.list. Please specify only one.")
        )
    for key in ("field.include.list", "field.exclude.list"):
        found += [
            (key, f"{entry!r} is not of the form <field> or <topic>:<field>")
            for entry in values[key] or ()
            if entry.count(":") > 1
        ]
    found += _misspelt(config)
    return found


def _misspelt(config: Mapping[str, str]) -> list[tuple[str, str]]:
    """Confluent's names of keys, which would mean nothing here."""
    others = {
        "connection.user": "connection.username", "pk.mode": "primary.key.mode", "pk.fields": "primary.key.fields",
        "auto.create": "schema.evolution", "auto.evolve": "schema.evolution", "fields.whitelist": "field.include.list",
    }  # fmt: skip
    return [
        (key, f"{other} is a key of the JDBC sinks of Confluent and Aiven; here it is {key}")
        for other, key in others.items()
        if other in config and key not in config
    ]


def _given_topics(config: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(parse_value("topics", config.get("topics") or "", ConfigType.LIST))


def _key_fields(values: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name.strip() for name in (values["primary.key.fields"] or "").split(",") if name.strip())


def _field_filter(values: Mapping[str, Any]) -> FieldFilter:
    excluded = values["field.exclude.list"]
    return FieldFilter(tuple(excluded or values["field.include.list"] or ()), includes=not excluded)


def _key_mode(values: Mapping[str, Any]) -> KeyMode:
    return KeyMode(values["primary.key.mode"].strip().lower())


def _insert_mode(values: Mapping[str, Any]) -> InsertMode:
    return InsertMode(values["insert.mode"].strip().lower())
