from __future__ import annotations

import pytest

from connect.errors import ConfigError, ConnectError
from connect.plugins import Plugins
from connect.record import SourceRecord
from connect.transforms.chain import apply_steps, build_steps

PLUGINS = Plugins.discover()
HOIST = "org.apache.kafka.connect.transforms.HoistField$Value"


def _apply(config: dict[str, str | None], record: SourceRecord) -> object:
    result = apply_steps(build_steps(config, PLUGINS), record)
    return None if result is None else (result.topic, result.value)


def test_steps_run_in_listed_order_on_the_result_of_the_previous_step() -> None:
    config: dict[str, str | None] = {
        "transforms": " route , wrap ",
        "transforms.wrap.type": HOIST,
        "transforms.wrap.field": "w",
        "transforms.wrap.predicate": "routed",
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": "a(.*)",
        "transforms.route.replacement": "b$1",
        "predicates": "routed",
        "predicates.routed.type": "TopicNameMatches",
        "predicates.routed.pattern": "b.*",
    }
    assert _apply(config, SourceRecord({}, {}, "a1", value=1)) == ("b1", {"w": 1})
    assert _apply(config, SourceRecord({}, {}, "c1", value=1)) == ("c1", 1)


def test_negated_filter_keeps_records_that_match_the_predicate() -> None:
    config: dict[str, str | None] = {
        "transforms": "f",
        "transforms.f.type": "Filter",
        "transforms.f.predicate": "p",
        "transforms.f.negate": "TRUE",
        "predicates": "p",
        "predicates.p.type": "RecordIsTombstone",
    }
    assert _apply(config, SourceRecord({}, {}, "t")) == ("t", None)
    assert _apply(config, SourceRecord({}, {}, "t", value=1)) is None


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "Invalid value null for configuration transforms.a.type: Not a Transformation"),
        ({"type": "Nope"}, "Invalid value Nope for configuration transforms.a.type: Class Nope could not be found."),
        ({"type": HOIST}, 'Missing required configuration "transforms.a.field" which has no default value.'),
        (
            {"type": HOIST.removesuffix("$Value")},
            "This class is abstract and cannot be created. Did you mean org.apache.kafka.connect.transforms.HoistField$Key, "
            "org.apache.kafka.connect.transforms.HoistField$Value?",
        ),
        (
            {"type": "RecordIsTombstone"},
            "Class class org.apache.kafka.connect.transforms.predicates.RecordIsTombstone does not implement the Transformation "
            "interface",
        ),
        (
            {"type": HOIST, "field": "x", "negate": "true"},
            "Config 'transforms.a.negate' was provided but there is no config 'transforms.a.predicate' defining a predicate "
            "to be negated.",
        ),
        ({"type": "ValueToKey", "fields": "a,a"}, "Configuration 'fields' values must not be duplicated."),
    ],
)
def test_config_errors_have_the_texts_of_apache(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        build_steps({"transforms": "a", **{f"transforms.a.{key}": value for key, value in config.items()}}, PLUGINS)
    assert raised.value.message == message


def test_duplicate_alias_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value \[a, a\] for configuration transforms: Duplicate alias provided\."):
        build_steps({"transforms": "a,a", "transforms.a.type": "Filter"}, PLUGINS)


def test_error_from_configure_is_wrapped_in_connect_error() -> None:
    config = {"transforms": "a", "transforms.a.type": "org.apache.kafka.connect.transforms.SetSchemaMetadata$Value"}
    with pytest.raises(ConnectError) as raised:
        build_steps(config, PLUGINS)
    assert raised.value.message == "org.apache.kafka.common.config.ConfigException: Neither schema name nor version configured"
