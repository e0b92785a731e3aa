"""Configuration of the PostgreSQL source."""

from __future__ import annotations

import pytest

from connect.config.schema_contracts import ContractMode
from connect.errors import ConfigError
from connectors.postgres import PostgresSource
from connectors.postgres.config import parse_config
from connectors.postgres.unsupported_keys import check_dynamic_keys

BASE = {
    "topic.prefix": "p",
    "database.hostname": "h",
    "database.user": "u",
    "database.password": "s3cret",
    "database.dbname": "d",
}


def test_the_password_is_never_printed() -> None:
    assert "s3cret" not in repr(parse_config(BASE))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("transaction.metadata.factory", "com.example.Own"),
        ("signal.data.collection", "signals"),
        ("signal.enabled.channels", "source,jmx"),
        ("incremental.snapshot.chunk.size", "0"),
        ("backfill.new.tables", "some"),
        ("notification.enabled.channels", "jmx"),
        ("time.precision.mode", "structure"),
        ("plugin.name", "wal2json"),
        ("snapshot.mode", "custom"),
        ("column.mask.with.x.chars", "public.t.c"),
        ("incremental.snapshot.watermarking.strategy", "delete"),
        ("table.include.list", "public.("),
        ("topic.prefix", "a b"),
        ("slot.name", "Upper"),
        ("skipped.operations", "x"),
        ("offset.mismatch.strategy", "trust_me"),
    ],
)
def test_keys_that_would_change_the_result_are_rejected(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config({**BASE, key: value})
    assert key in str(raised.value)
    errors = {v.name: v.errors for v in PostgresSource().validate({**BASE, key: value}) if v.errors}
    assert list(errors) == [key]


def test_debeziums_defaults_and_ignored_keys_are_accepted() -> None:
    taken = {
        "plugin.name": "pgoutput", "max.queue.size": "20000", "snapshot.mode": "never", "signal.enabled.channels": "source",
        "provide.transaction.metadata": "false", "snapshot.fetch.size": "10240", "name": "x", "transforms": "unwrap",
    }  # fmt: skip
    settings = parse_config({**BASE, **taken})
    assert settings.snapshot.mode == "no_data"
    assert settings.slot.publication == "dbz_publication"
    assert settings.slot.name == "debezium"
    assert settings.skipped == {"t"}


def test_include_and_exclude_are_mutually_exclusive() -> None:
    (finding,) = check_dynamic_keys({**BASE, "table.include.list": "a", "table.exclude.list": "b"})
    assert finding.name == "table.exclude.list"


@pytest.mark.parametrize("option", ["proto_version=2", "streaming=on", "binary=true", "two_phase=on", "publication_names=x"])
def test_options_that_change_the_protocol_are_refused(option: str) -> None:
    with pytest.raises(ConfigError, match="changes the protocol"):
        parse_config(BASE | {"slot.stream.params": f"messages=false;{option}"})
    assert parse_config(BASE | {"slot.stream.params": "proto_version=1;streaming=off;origin=none"}).slot.plugin_options


@pytest.mark.parametrize(
    ("config", "confirms", "confirms_idle", "strategy", "heartbeat_s"),
    [
        ({}, True, False, "trust_offset", 0),
        ({"flush.lsn.source": "false"}, False, False, "trust_offset", 0),
        ({"flush.lsn.source": "false", "lsn.flush.mode": "connector"}, True, False, "trust_offset", 0),
        ({"lsn.flush.mode": "manual"}, False, False, "trust_offset", 0),
        ({"lsn.flush.mode": "connector_and_driver"}, True, True, "trust_greater_lsn", 600),
        (
            {"lsn.flush.mode": "connector_and_driver", "offset.mismatch.strategy": "trust_slot", "heartbeat.interval.ms": "5000"},
            True,
            True,
            "trust_slot",
            5,
        ),
    ],
)
def test_flush_modes(config: dict[str, str], confirms: bool, confirms_idle: bool, strategy: str, heartbeat_s: float) -> None:
    parsed = parse_config({**BASE, **config})
    slot = parsed.slot
    assert (slot.confirms, slot.confirms_idle, slot.mismatch_strategy) == (confirms, confirms_idle, strategy)
    assert parsed.heartbeat.interval_s == heartbeat_s


def test_a_sink_of_notifications_without_a_topic_is_found_in_validation_too() -> None:
    config = {**BASE, "notification.enabled.channels": "log,sink"}
    assert [v.name for v in PostgresSource().validate(config) if v.errors] == ["notification.sink.topic.name"]
    with pytest.raises(ConfigError, match="needs a topic"):
        parse_config(config)


@pytest.mark.parametrize(
    ("key", "instead"), [("signal.enabled.channels", "/signals"), ("notification.enabled.channels", "/progress")]
)
def test_jmx_is_refused_with_what_replaces_it(key: str, instead: str) -> None:
    with pytest.raises(ConfigError, match=f"in place of JMX, .* /sluice/connectors/<name>{instead}"):
        parse_config({**BASE, key: "jmx"})


@pytest.mark.parametrize("text", ["public.t", "public.t:melt", "(:freeze", ":freeze:"])
def test_wrong_contracts_are_named(text: str) -> None:
    with pytest.raises(ConfigError, match=r"schema\.contract\.overrides: expected|not a regular expression"):
        parse_config({**BASE, "schema.contract.overrides": text})


def test_the_contract_of_a_column_precedes_that_of_its_table() -> None:
    contracts = parse_config(
        {**BASE, "schema.contract": "freeze", "schema.contract.overrides": r"public\.t:evolve, PUBLIC\.t\.s.*:drop_column"}
    ).contracts.rules
    assert contracts.mode_of("public.t", "secret") is ContractMode.DROP_COLUMN
    assert contracts.mode_of("public.t", "name") is ContractMode.EVOLVE
    assert contracts.mode_of("public.u", "name") is ContractMode.FREEZE
