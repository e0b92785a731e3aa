"""The keys of custom converters are validated, and classes that cannot run are refused by name."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from connect.errors import ConfigError
from connect.plugin_rules import PluginRules, install_plugin_rules
from connectors.cdc.config.converter_keys import parse_converters
from connectors.mysql import MySqlSource
from connectors.mysql.custom_converters import JdbcSinkDataTypesConverter, TinyIntOneToBooleanConverter
from connectors.postgres import PostgresSource

_CENTS = "tests.support.custom_converters:Cents"
_BROKEN = "tests.support.custom_converters:Broken"
_BINLOG = "io.debezium.connector.binlog.converters"
_TINYINT = f"{_BINLOG}.TinyIntOneToBooleanConverter"
_MYSQL = "io.debezium.connector.mysql.converters"


@pytest.fixture(autouse=True)
def rules() -> Iterator[None]:
    yield
    install_plugin_rules(PluginRules())


def errors_of(config: dict[str, str]) -> dict[str, list[str]]:
    """What PostgreSQL's connector says about the keys of converters."""
    base = {"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d"}
    return {value.name: value.errors for value in PostgresSource().check_config({**base, **config}) if value.errors}


def test_no_converters_without_the_key() -> None:
    assert parse_converters({}) == parse_converters({"converters": " , "}) == ()
    assert errors_of({"converters": ""}) == {}


@pytest.mark.parametrize("package", [_BINLOG, _MYSQL])
@pytest.mark.parametrize("class_", [TinyIntOneToBooleanConverter, JdbcSinkDataTypesConverter])
def test_debeziums_converters_are_known_by_both_packages(package: str, class_: type) -> None:
    (found,) = parse_converters({"converters": "x", "x.type": f"{package}.{class_.__name__}"})
    assert type(found.converter) is class_


@pytest.mark.parametrize(
    ("config", "key", "reason"),
    [
        ({}, "converters", "set x.type to the class of the converter x"),
        ({"x.type": "com.example.IsbnConverter"}, "x.type", "a converter in Java cannot run in Python. Known"),
        ({"x.type": "io.debezium.connector.oracle.converters.RawToStringConverter"}, "x.type", "Write others as a Python class"),
        ({"x.type": "no_such_module:Converter"}, "x.type", "No module named 'no_such_module'"),
        ({"x.type": "tests.support.custom_converters:AMOUNT"}, "x.type", "it does not extend CustomConverter"),
        ({"x.type": _TINYINT, "x.length.checker": "perhaps"}, "x.length.checker", "true or false"),
        ({"x.type": _TINYINT, "x.selector": "a,("}, "x.selector", "not a regular expression"),
        ({"x.type": _BROKEN, "x.mode": "configure"}, "x.type", r"converter x: RuntimeError: no network \(in function"),
    ],
)  # fmt: skip
def test_wrong_keys_are_errors_with_a_reason(config: dict[str, str], key: str, reason: str) -> None:
    found = errors_of({"converters": "x", **config})
    assert list(found) == [key]
    assert re.search(reason, found[key][0]), found
    with pytest.raises(ConfigError):
        PostgresSource().parse({"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d",
                                "converters": "x", **config})  # fmt: skip


def test_class_that_the_worker_denies_is_not_imported() -> None:
    install_plugin_rules(PluginRules(("io.debezium.*",)))
    found = errors_of({"converters": "x", "x.type": "tests.support.no_such_module:Converter"})
    assert "is not allowed on this worker" in found["x.type"][0]
    assert errors_of({"converters": "x", "x.type": _TINYINT}) == {}
    install_plugin_rules(PluginRules(deny=("*TinyInt*",)))
    found = errors_of({"converters": "x", "x.type": _TINYINT})
    assert "is not allowed on this worker" in found["x.type"][0]


def test_keys_of_converters_are_known_keys() -> None:
    config = {"converters": "x", "x.type": _CENTS, "x.column": "price"}
    names = {value.name for value in MySqlSource().check_config(config)}
    assert {"converters", "x.type", "x.column"} <= names
