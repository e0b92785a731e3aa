from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from connect.errors import ConfigError
from connectors.mysql.config import MySqlConfig, parse_config
from connectors.mysql.config_keys import config_def
from connectors.mysql.unsupported_keys import check_dynamic_keys

REQUIRED = {
    "topic.prefix": "shop",
    "database.hostname": "db",
    "database.user": "cdc",
    "database.password": "secret-password",
    "database.server.id": "184054",
    "schema.history.internal.kafka.topic": "history",
}


def parse(config: Mapping[str, str] | None = None, *, is_mariadb: bool = False, **more: str) -> MySqlConfig:
    return parse_config({**REQUIRED, **(config or {}), **more}, is_mariadb=is_mariadb)


# Debezium 3.7's defaults.
DEFAULTS = {
    "database.port": 3306,
    "connect.timeout.ms": 30000,
    "connect.keep.alive": True,
    "connect.keep.alive.interval.ms": 60000,
    "database.query.timeout.ms": 600000,
    "binlog.net.write.timeout": 0,
    "binlog.buffer.size": "0",
    "include.query": False,
    "include.schema.changes": True,
    "include.schema.comments": False,
    "snapshot.mode": "initial",
    "snapshot.locking.mode": "minimal",
    "time.precision.mode": "adaptive_time_microseconds",
    "bigint.unsigned.handling.mode": "long",
    "decimal.handling.mode": "precise",
    "binary.handling.mode": "bytes",
    "enable.time.adjuster": True,
    "inconsistent.schema.handling.mode": "fail",
    "gtid.source.filter.dml.events": True,
    "gtid.ignore.on.recovery": False,
    "topic.naming.strategy": "io.debezium.schema.DefaultTopicNamingStrategy",
    "schema.history.internal": "io.debezium.storage.kafka.history.KafkaSchemaHistory",
    "schema.history.internal.kafka.recovery.attempts": 100,
    "schema.history.internal.kafka.recovery.poll.interval.ms": 100,
    "schema.history.internal.kafka.query.timeout.ms": 3000,
    "schema.history.internal.kafka.create.timeout.ms": 30000,
    "schema.history.internal.store.only.captured.tables.ddl": False,
    "max.batch.size": 2048,
    "skipped.operations": "t",
    "errors.max.retries": -1,
}


@pytest.mark.parametrize("is_mariadb", [False, True])
def test_defaults_are_debeziums(is_mariadb: bool) -> None:
    values = config_def(is_mariadb=is_mariadb).parse(REQUIRED)
    assert {name: values[name] for name in DEFAULTS} == DEFAULTS
    assert values["database.ssl.mode"] == ("disable" if is_mariadb else "preferred")
    assert values["sourceinfo.struct.maker"].startswith(f"io.debezium.connector.{'mariadb' if is_mariadb else 'mysql'}.")


def test_keys_without_an_effect_here_are_not_offered() -> None:
    names = set(config_def().keys)
    assert not names & {"schema.include.list", "message.prefix.include.list", "restore.debezium.events", "slot.name"}


def test_typed_values() -> None:
    config = parse(
        {
            "database.include.list": "shop,crm",
            "table.include.list": "shop\\.orders,crm\\..*",
            "signal.data.collection": "shop.signals",
            "connect.keep.alive.interval.ms": "10000",
            "snapshot.mode": "schema_only_recovery",
            "schema.history.internal.producer.acks": "all",
            "schema.history.internal.consumer.security.protocol": "SSL",
            "database.initial.statements": "SET a = 1;SET b = ';;'",
            "inconsistent.schema.handling.mode": "ignore",
        }
    )
    assert (config.capture.schema_include, config.capture.signal_table) == (("shop", "crm"), ("shop", "signals"))
    assert (config.binlog.server_id, config.binlog.heartbeat_s, config.binlog.silence_s) == (184054, 8.0, 20.0)
    assert config.snapshot.mode == "recovery"
    assert (config.history.kind, config.history.producer, config.history.consumer) == (
        "kafka", {"acks": "all"}, {"security.protocol": "SSL"},
    )  # fmt: skip
    assert config.address.initial_statements == ("SET a = 1", "SET b = ';'")
    assert config.inconsistent_schema == "skip"
    assert config.topic_naming.topic("shop", "order items") == "shop.shop.order_items"
    assert math.isinf(parse({"connect.keep.alive": "false"}).binlog.silence_s)


def test_old_names_of_keys_work() -> None:
    config = {
        name: value for name, value in REQUIRED.items() if name not in ("topic.prefix", "schema.history.internal.kafka.topic")
    }
    parsed = parse_config(
        {
            **config,
            "database.server.name": "old",
            "database.history": "io.debezium.relational.history.FileDatabaseHistory",
            "database.history.file.filename": "history.dat",
        }
    )
    assert (parsed.topic_prefix, parsed.history.kind, parsed.history.file) == ("old", "file", "history.dat")


@pytest.mark.parametrize(
    ("value", "is_mariadb", "mode"),
    [
        ("verify_identity", False, "verify_identity"),
        ("REQUIRED", False, "required"),
        ("verify-full", True, "verify_identity"),
        ("trust", True, "required"),
        ("disable", True, "disabled"),
    ],
)
def test_tls_modes_of_both_connectors(value: str, is_mariadb: bool, mode: str) -> None:
    stores = {"database.ssl.truststore": "/etc/trust.jks", "database.ssl.truststore.password": "store-password"}
    tls = parse({"database.ssl.mode": value, **stores}, is_mariadb=is_mariadb).address.tls
    assert (tls.mode, tls.trust_store.location, tls.trust_store.password) == (mode, "/etc/trust.jks", "store-password")
    assert not tls.key_store.is_given


def test_secrets_are_not_shown() -> None:
    config = parse({"database.ssl.keystore": "k", "database.ssl.keystore.password": "store-password"})
    assert "secret-password" not in repr(config)
    assert "store-password" not in repr(config)


def test_sources_of_gtids_are_chosen_by_regular_expressions() -> None:
    included = parse({"gtid.source.includes": "0-1,1-.*"}, is_mariadb=True).binlog
    assert [included.reads_source(source) for source in ("0-1", "0-2", "1-9")] == [True, False, True]
    excluded = parse({"gtid.source.excludes": "3E11.*"}).binlog
    assert [excluded.reads_source(source) for source in ("3e11fa47", "aaaa")] == [False, True]
    assert not parse().binlog.filters_sources


def test_event_deserialization_mode_is_an_old_name() -> None:
    old = {"event.deserialization.failure.handling.mode": "ignore"}
    assert parse(old).events.failure_mode == "skip"
    assert parse({**old, "event.processing.failure.handling.mode": "warn"}).events.failure_mode == "warn"
    assert parse().events.failure_mode == "fail"


def test_size_of_the_buffer_of_uncommitted_changes_has_no_effect() -> None:
    assert parse({"binlog.buffer.size": "1000"}) == parse()


def test_placeholder_may_be_hexadecimal() -> None:
    assert parse({"unavailable.value.placeholder": "hex:6f6c64"}).types.placeholder == "old"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"database.server.id": ""}, "database.server.id"),
        ({"database.server.id": "4294967296"}, "database.server.id"),
        ({"database.port": "0"}, "database.port"),
        ({"time.precision.mode": "adaptive"}, "time.precision.mode.*expected one of adaptive_time_microseconds"),
        ({"snapshot.mode": "custom"}, "snapshot.mode.*expected one of initial"),
        ({"snapshot.locking.mode": "custom"}, "snapshot.locking.mode"),
        ({"table.ignore.builtin": "false"}, "table.ignore.builtin.*never captured"),
        ({"unavailable.value.placeholder": "hex:ff"}, "unavailable.value.placeholder.*UTF-8 bytes in hexadecimal"),
        ({"unavailable.value.placeholder": "hex:xy"}, "unavailable.value.placeholder.*UTF-8 bytes in hexadecimal"),
        ({"converters": "isbn"}, "converters"),
        (
            {"schema.history.internal": "io.debezium.storage.redis.history.RedisSchemaHistory"},
            "in Kafka, in a file, and in memory",
        ),
        ({"schema.history.internal.kafka.topic": ""}, "schema.history.internal.kafka.topic.*in Kafka needs it"),
        (
            {"schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory"},
            "schema.history.internal.file.filename.*in a file needs it",
        ),
        ({"gtid.source.includes": "a", "gtid.source.excludes": "b"}, "mutually exclusive"),
        ({"database.include.list": "a", "database.exclude.list": "b"}, "mutually exclusive"),
        ({"database.ssl.mode": "verify"}, "database.ssl.mode.*verify_identity"),
        ({"signal.data.collection": "signals"}, r"signal\.data\.collection.*expected database\.table"),
        ({"message.key.columns": "t"}, r"expected <database\.table regex>:<column>"),
    ],
)
def test_wrong_values_are_rejected(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(config)


def test_validation_reports_missing_keys_of_the_history() -> None:
    assert [finding.name for finding in check_dynamic_keys({})] == ["schema.history.internal.kafka.topic"]
    assert check_dynamic_keys(REQUIRED) == []
