"""Keys of the JDBC source: validation, conflicts, and typed values."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from connect.config.definition import ConfigKey
from connect.connector import ExactlyOnceSupport
from connect.errors import BadRequestError, ConfigError
from connectors.jdbc.flavor import ConnectorFlavor
from connectors.jdbc.options import NumericMapping
from connectors.jdbc.source.config import parse_source_config
from connectors.jdbc.source.config_keys import config_def
from connectors.jdbc.source.connector import AivenJdbcSource, JdbcSource
from connectors.jdbc.source.modes import Mode

BASE = {"connection.url": "jdbc:sqlite:/nowhere/shop.db", "mode": "bulk", "topic.prefix": "shop-"}
SECRET = "s3cr3t-w0rd"


def errors_of(config: Mapping[str, str], connector: type[JdbcSource] = JdbcSource) -> dict[str, list[str]]:
    return {value.name: value.errors for value in connector().check_config(config) if value.errors}


def row(key: ConfigKey) -> str:
    default = None if key.required else key.default
    shown = ",".join(default) if isinstance(default, list) else str(default).lower() if isinstance(default, bool) else default
    cells = (key.name, key.type.value, key.required, shown, key.importance.value, key.group, key.order, key.width.value)
    return "|".join(map(str, (*cells, key.display_name, list(key.dependents))))


AIVEN = (Path(__file__).parent / "aiven-source-keys.txt").read_text().splitlines()


def test_aivens_keys_are_shown_as_its_connector_shows_them() -> None:
    shown = [row(key) for key in config_def(ConnectorFlavor.AIVEN).keys.values()]
    assert shown[: len(AIVEN)] == AIVEN


def test_both_classes_take_the_keys_of_both() -> None:
    assert set(config_def(ConnectorFlavor.AIVEN).keys) == set(config_def(ConnectorFlavor.CONFLUENT).keys)


def test_the_defaults_are_those_of_the_class_that_is_asked_for() -> None:
    confluent, aiven = config_def(ConnectorFlavor.CONFLUENT).keys, config_def(ConnectorFlavor.AIVEN).keys
    assert (confluent["batch.max.rows"].default, aiven["batch.max.rows"].default) == (1000, 100)
    assert [name for name, key in aiven.items() if key.required] == ["connection.url", "mode", "topic.prefix"]
    assert not [name for name, key in confluent.items() if key.required]


@pytest.mark.parametrize("connector", [JdbcSource, AivenJdbcSource])
def test_required_keys_are_reported_if_missing(connector: type[JdbcSource]) -> None:
    found = errors_of({}, connector)
    assert {"connection.url", "mode"} <= set(found)


@pytest.mark.parametrize(
    ("given", "key", "words"),
    [
        ({"mode": "incremental"}, "mode", "must be one of"),
        ({"mode": "timestamp"}, "timestamp.column.name", "mode=timestamp needs timestamp.column.name"),
        ({"table.whitelist": "a", "table.blacklist": "b"}, "table.blacklist", "cannot both"),
        ({"table.exclude.list": "a"}, "table.exclude.list", "table.include.list"),
        ({"table.include.list": "a", "table.whitelist": "b"}, "table.include.list", "cannot be combined"),
        ({"table.include.list": "a("}, "table.include.list", "not a regular expression"),
        ({"query": "SELECT 1", "table.whitelist": "b"}, "table.whitelist", "cannot be combined with a query"),
        ({"query": "SELECT 1", "query.masked": "SELECT 2"}, "query.masked", "cannot both"),
        ({"query": "SELECT 1", "mode": "incrementing"}, "incrementing.column.name", "a query in mode=incrementing"),
        ({"incrementing.column.name": "a", "incrementing.column.mapping": ".*:b"}, "incrementing.column.mapping", "cannot both"),
        ({"incrementing.column.mapping": "orders"}, "incrementing.column.mapping", "<regex>:<column>"),
        ({"timestamp.columns.mapping": ".*:a"}, "timestamp.columns.mapping", r"<regex>:[<column>|<column>]"),
        ({"topic.prefix": "a b"}, "topic.prefix", "letters, digits"),
        ({"topic.name.format": "${tabel}"}, "topic.name.format", "${tabel} is unknown"),
        ({"db.timezone": "Europe/Berln"}, "db.timezone", "did you mean Europe/Berlin?"),
        ({"dialect.name": "PostgreSqlDatabaseDialect"}, "dialect.name", "sqlite"),
        ({"dialect.name": "PostgresSqlDatabaseDialect"}, "dialect.name", "did you mean PostgreSqlDatabaseDialect?"),
        ({"numeric.mapping": "best-fit"}, "numeric.mapping", "did you mean best_fit?"),
        ({"quote.sql.identifiers": "yes"}, "quote.sql.identifiers", "always or never"),
        ({"snapshot.chunks": "many"}, "snapshot.chunks", "off, auto"),
        ({"numeric.unset.scale": "-1"}, "numeric.unset.scale", "0 to 127"),
        ({"key.columns": "a:,b"}, "key.columns", "name is empty"),
        ({"connection.attempts": "0"}, "connection.attempts", "at least 1"),
        ({"jdbc.credentials.provider.class": "com.example.Vault"}, "jdbc.credentials.provider.class", "configuration provider"),
        ({"connection.url": "jdbc:sqlte:/x"}, "connection.url", "sqlite"),
        ({"mode": "incrementing", "table.names.qualify": "false"}, "incrementing.column.name", "table.names.qualify"),
    ],
)
def test_conflict_is_reported_at_its_key(given: dict[str, str], key: str, words: str) -> None:
    found = errors_of({**BASE, **given})
    assert list(found) == [key]
    assert words in found[key][0]


@pytest.mark.parametrize(
    "given",
    [
        {"mode": "timestamp+incrementing", "timestamp.column.name": "a,b"},
        {"mode": "timestamp", "timestamp.columns.mapping": ".*:[a|b]"},
        {"query.masked": "WITH x AS (SELECT 1 AS a) SELECT * FROM x"},
        {"dialect.name": "SqliteDatabaseDialect", "sql.quote.identifiers": "false", "max.buffer.size": "10"},
        {"jdbc.credentials.provider.class": "io.confluent.connect.jdbc.util.DefaultJdbcCredentialsProvider"},
        {"transaction.isolation.mode": "serializable", "db.timezone": "+02:00", "table.types": "TABLE,VIEW"},
    ],
)
@pytest.mark.parametrize("connector", [JdbcSource, AivenJdbcSource])
def test_configurations_of_confluent_and_aiven_are_accepted(connector: type[JdbcSource], given: dict[str, str]) -> None:
    assert errors_of({**BASE, **given}, connector) == {}


def test_keys_of_both_flavors_are_parsed_into_typed_values() -> None:
    settings = parse_source_config(
        {
            **BASE,
            "mode": "timestamp",
            "timestamp.column.name": "a",
            "timestamp.initial.ms": "-1",
            "sql.quote.identifiers": "false",
            "numeric.precision.mapping": "true",
            "db.timezone": "+05:30",
            "transaction.isolation.mode": "SQL_SERVER_SNAPSHOT",
        },
        ConnectorFlavor.CONFLUENT,
    )
    assert settings.mode.mode is Mode.TIMESTAMP
    assert settings.mode.initial_timestamp_ms == -1
    assert settings.connection.quotes is False
    assert settings.connection.isolation == "SNAPSHOT"
    assert settings.read.numeric is NumericMapping.PRECISION_ONLY
    assert settings.read.zone.utcoffset(dt.datetime(2024, 1, 1)) == dt.timedelta(hours=5, minutes=30)


def test_initial_timestamp_of_minus_one_means_now() -> None:
    config = {**BASE, "mode": "timestamp", "timestamp.column.name": "a", "timestamp.initial": "-1"}
    assert parse_source_config(config, ConnectorFlavor.AIVEN).mode.initial_timestamp_ms is None
    assert parse_source_config({**config, "timestamp.initial": "5"}, ConnectorFlavor.AIVEN).mode.initial_timestamp_ms == 5


def test_batches_have_the_fastest_size_unless_configured() -> None:
    assert parse_source_config(BASE, ConnectorFlavor.AIVEN).batch_rows == 5000
    assert parse_source_config({**BASE, "batch.max.rows": "100"}, ConnectorFlavor.AIVEN).batch_rows == 100


def test_neither_passwords_nor_masked_queries_are_printed(caplog: pytest.LogCaptureFixture) -> None:
    config = {
        **BASE,
        "connection.url": f"jdbc:postgresql://db.example/shop?user=u&password={SECRET}",
        "connection.password": SECRET,
        "query.masked": f"SELECT '{SECRET}' AS a",
    }
    with caplog.at_level(logging.DEBUG):
        settings = parse_source_config(config, ConnectorFlavor.CONFLUENT)
        shown = repr(settings) + str(errors_of({**config, "mode": "timestamp"}))
    assert SECRET not in shown + caplog.text


@pytest.mark.parametrize(
    ("mode", "supported"),
    [("incrementing", True), ("timestamp+incrementing", True), ("timestamp", False), ("bulk", False)],
)
def test_exactly_once_needs_an_offset_per_row(mode: str, supported: bool) -> None:
    found = JdbcSource().exactly_once_support({**BASE, "mode": mode})
    assert found is (ExactlyOnceSupport.SUPPORTED if supported else ExactlyOnceSupport.UNSUPPORTED)


INCREMENTING = {**BASE, "mode": "incrementing"}
PARTITION = (("protocol", "1"), ("table", "public.orders"))


@pytest.mark.parametrize(
    ("config", "partition", "offset"),
    [
        (INCREMENTING, PARTITION, {"incrementing": 5}),
        (INCREMENTING, (("table", "orders"),), {"incrementing": 5}),
        (INCREMENTING, (("anything", 1),), None),
        (
            {**INCREMENTING, "query": "SELECT 1", "incrementing.column.name": "id"},
            (("query", "query"),),
            {"incrementing": 5},
        ),
    ],
)
def test_valid_offsets_can_be_altered(
    config: dict[str, str], partition: tuple[tuple[str, object], ...], offset: Mapping[str, Any] | None
) -> None:
    assert JdbcSource().alter_offsets(config, {partition: offset})


@pytest.mark.parametrize(
    ("config", "partition", "offset", "words"),
    [
        (INCREMENTING, PARTITION, {"incrementing": "5"}, "must be an integer"),
        (INCREMENTING, PARTITION, {"timestamp": 5}, "needs incrementing"),
        (INCREMENTING, (("server", "x"),), {"incrementing": 5}, '"protocol": "1"'),
        (INCREMENTING, (("query", "query"),), {"incrementing": 5}, '"protocol": "1"'),
        (BASE, PARTITION, {"incrementing": 5}, "bulk has no offsets"),
    ],
)
def test_invalid_offsets_are_rejected(
    config: dict[str, str], partition: tuple[tuple[str, object], ...], offset: dict[str, object], words: str
) -> None:
    with pytest.raises(BadRequestError, match=words):
        JdbcSource().alter_offsets(config, {partition: offset})


def test_start_with_an_invalid_configuration_fails_with_the_key() -> None:
    with pytest.raises(ConfigError, match=r"timestamp\.column\.name") as caught:
        JdbcSource().start({**BASE, "mode": "timestamp"})
    assert caught.value.key == "timestamp.column.name"
