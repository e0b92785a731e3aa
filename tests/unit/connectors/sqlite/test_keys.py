"""Keys of the SQLite source: what they become, and which are rejected."""

from __future__ import annotations

import pytest

from connect.errors import BadRequestError, ConfigError
from connectors.sqlite import SqliteSource
from connectors.sqlite.config import parse_config

CONFIG = {"topic.prefix": "shop", "database.file": "/data/shop.db"}


def test_defaults() -> None:
    assert SqliteSource().config_def().parse(CONFIG)["database.file"] == "/data/shop.db"
    settings = parse_config(CONFIG)
    assert settings.file == "/data/shop.db"
    assert settings.loss_mode == "fail"
    assert not settings.drops_on_stop
    assert settings.snapshot.mode == "initial"
    assert settings.snapshot.transaction_s is None
    assert settings.types.time_mode == "text"


def test_column_types_match_whole_names_in_any_case() -> None:
    types = parse_config({**CONFIG, "column.types": r"main\.orders\.NOTE:any, .*\.flag:Boolean"}).types
    assert types.kind_of("main.orders.note") == "any"
    assert types.kind_of("main.orders.note2") is None
    assert types.kind_of("main.x.flag") == "boolean"


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("column.types", "main.t.c", "expected <schema.table.column regular expression>:<kind>"),
        ("column.types", "main.t.c:money", "expected <schema.table.column"),
        ("column.types", "(:any", "not a regular expression"),
        ("provide.transaction.metadata", "true", "do not see where a transaction begins and ends"),
        ("notification.enabled.channels", "jmx", "this connector supports log, sink"),
        ("post.processors", "reselect", "none is read again"),
        ("capture.name", "Two-1", "lowercase letters and digits"),
        ("capture.loss.mode", "ignore", "fail, reread, truncate"),
        ("snapshot.mode", "custom", "expected one of initial"),
        ("snapshot.transaction.max.ms", "0", "at least 1"),
        ("time.precision.mode", "isostring", "text"),
    ],
)
def test_wrong_values_are_rejected_with_a_reason(key: str, value: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason.replace("(", r"\(")):
        parse_config({**CONFIG, key: value})
    (found,) = (one for one in SqliteSource().check_config({**CONFIG, key: value}) if one.name == key)
    assert reason in "; ".join(found.errors)


def test_notifications_in_a_topic_need_its_name() -> None:
    config = {**CONFIG, "notification.enabled.channels": "log,sink"}
    key = "notification.sink.topic.name"
    (found,) = (one for one in SqliteSource().check_config(config) if one.name == key)
    assert "the notification channel sink needs a topic" in "; ".join(found.errors)
    assert parse_config({**config, key: "notes"}).notifications.topic == "notes"


def test_include_and_exclude_are_exclusive() -> None:
    with pytest.raises(ConfigError, match="mutually exclusive"):
        parse_config({**CONFIG, "table.include.list": "main.a", "table.exclude.list": "main.b"})


def test_offsets_over_rest_are_checked() -> None:
    source, partition = SqliteSource(), (("server", "shop"),)
    assert source.alter_offsets(CONFIG, {partition: {"seq": 5, "ts_ms": 7, "database_id": "x"}, (("server", "old"),): None})
    for offset, reason in (
        ({}, "seq of the offset is missing"),
        ({"seq": "5", "ts_ms": 7, "database_id": "x"}, "no integers seq and ts_ms"),
        ({"seq": 5, "ts_ms": 7}, "no text database_id"),
        ({"seq": 5, "ts_ms": 7, "database_id": "x", "schema_contracts": "["}, "schema_contracts"),
    ):
        with pytest.raises(BadRequestError, match=reason):
            source.alter_offsets(CONFIG, {partition: offset})
    with pytest.raises(BadRequestError, match="is not this connector's"):
        source.alter_offsets(CONFIG, {(("server", "other"),): {"seq": 5, "ts_ms": 7, "database_id": "x"}})
