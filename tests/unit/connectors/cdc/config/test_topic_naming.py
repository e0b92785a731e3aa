"""Names of tables' topics."""

from __future__ import annotations

import pytest

from connect.errors import ConfigError
from connectors.postgres import PostgresSource
from connectors.postgres.config import parse_config

CONFIG = {"topic.prefix": "p_1", "database.hostname": "h", "database.user": "u", "database.dbname": "d"}
STRATEGY = "io.debezium.schema.Schema{}TopicNamingStrategy"


def name_topic(schema: str, table: str, **config: str) -> str:
    return parse_config(CONFIG | {key.replace("_", "."): value for key, value in config.items()}).topic_naming.topic(
        schema, table
    )


def test_invalid_characters_are_replaced_by_default() -> None:
    assert name_topic("my schema", "ta$ble-ö") == "p_1.my_schema.ta_ble-_"
    assert name_topic("a", "b", topic_delimiter="-", topic_naming_strategy=STRATEGY.format("")) == "p_1-a-b"


def test_escaped_characters_keep_names_different() -> None:
    escaped = STRATEGY.format("Unicode")
    assert name_topic("a b", "c_\u20ac\U0001f600", topic_naming_strategy=escaped) == "p_u005f1.a_u0020b.c_u005f_u20ac_ud83d_ude00"


@pytest.mark.parametrize(
    ("schema", "table", "topic"),
    [("tenant_7", "orders", "shared.orders"), ("public", "orders", "p_1.public.orders"), ("tenant_7", "a b", "shared.a_b")],
)
def test_matching_names_are_replaced(schema: str, table: str, topic: str) -> None:
    config = {"topic_naming_strategy": STRATEGY.format("Regex"), "topic_regex": r"[^.]+\.tenant_\d+\.(.*)"}
    assert name_topic(schema, table, topic_replacement="shared.$1", **config) == topic


def test_an_empty_replacement_keeps_the_name() -> None:
    config = {"topic_naming_strategy": STRATEGY.format("Regex"), "topic_regex": r"(.*)(x*)"}
    assert name_topic("a", "b", topic_replacement="$2", **config) == "p_1.a.b"


def test_strategies_without_the_schema_are_refused() -> None:
    with pytest.raises(ConfigError, match="use one of the strategies listed"):
        name_topic("a", "b", topic_naming_strategy="io.debezium.schema.DefaultTopicNamingStrategy")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"topic.naming.strategy": STRATEGY.format("Regex"), "topic.replacement": "a"}, "configuration topic.regex: required"),
        ({"topic.naming.strategy": STRATEGY.format("Regex"), "topic.regex": "a"}, "topic.replacement: required"),
        ({"topic.naming.strategy": STRATEGY.format("Regex"), "topic.regex": "(", "topic.replacement": "a"}, "not a regular"),
        ({"topic.naming.strategy": STRATEGY.format("Regex"), "topic.regex": "a", "topic.replacement": "$1"}, "No group 1"),
    ],
)
def test_incomplete_or_invalid_keys_are_found_in_validation_and_at_the_start(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(CONFIG | config)
    errors = [error for value in PostgresSource().validate(CONFIG | config) for error in value.errors]
    assert any(message in error for error in errors), errors


def test_errors_of_both_keys_are_found_at_once() -> None:
    config = {"topic.naming.strategy": STRATEGY.format("Regex"), "topic.regex": "("}
    found = {value.name: value.errors for value in PostgresSource().validate(CONFIG | config) if value.errors}
    assert sorted(found) == ["topic.regex", "topic.replacement"]
