"""Keys of the Debezium sink: validation like Debezium's connector, and conflicts."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from connect.config.definition import NO_DEFAULT
from connect.errors import ConfigError, ConnectError
from connectors.jdbc.aliases import PLUGINS
from connectors.jdbc.debezium_sink import DebeziumJdbcSink
from connectors.jdbc.debezium_sink.config import DebeziumKeyMode, config_def, parse_debezium_config
from connectors.jdbc.options import InsertMode
from tests.unit.connectors.jdbc.debezium_rig import DebeziumSink

GOOD = {"name": "s", "topics": "t", "connection.url": "jdbc:sqlite::memory:"}

# What the answer of 3.6.0.Final to PUT .../config/validate says of its own keys.
SHOWN = """
connection.url|STRING|None|HIGH|1|LONG|Hostname
connection.username|STRING|None|HIGH|2|SHORT|User
connection.password|PASSWORD|None|HIGH|3|SHORT|Password
connection.pool.min_size|INT|5|LOW|4|SHORT|Connection pool minimum size
connection.pool.max_size|INT|32|LOW|5|SHORT|Connection pool maximum size
connection.pool.timeout|LONG|1800|LOW|6|SHORT|Connection pool timeout
insert.mode|STRING|insert|LOW|7|SHORT|The insertion mode to use
delete.enabled|BOOLEAN|false|LOW|8|SHORT|Controls whether records can be deleted by the connector
truncate.enabled|BOOLEAN|false|LOW|9|SHORT|Controls whether tables can be truncated by the connector
collection.name.format|STRING|${topic}|MEDIUM|10|MEDIUM|A format string for the collection name
table.name.format|STRING|${topic}|MEDIUM|10|MEDIUM|A format string for the collection name
primary.key.mode|STRING|none|HIGH|11|SHORT|Primary key mode
primary.key.fields|STRING|None|LOW|12|MEDIUM|Comma-separated list of primary key field names
schema.evolution|STRING|none|LOW|13|SHORT|Controls how schema evolution is handled by the sink connector
quote.identifiers|BOOLEAN|false|LOW|14|SHORT|Controls whether table, column, or other identifiers are quoted
collection.naming.strategy|CLASS|{default}|LOW|15|LONG|CollectionNamingStrategy class
table.naming.strategy|CLASS|{default}|LOW|15|LONG|CollectionNamingStrategy class
collection.table.format|STRING|${table}|MEDIUM|17|LONG|Format string using table name
use.time.zone|STRING|UTC|MEDIUM|18|SHORT|The timezone used when inserting temporal values.
database.time_zone|STRING|UTC|MEDIUM|18|SHORT|The timezone used when inserting temporal values.
dialect.postgres.postgis.schema|STRING|public|LOW|19|LONG|Name of the schema where postgis extension is installed
dialect.postgres.unnest.insert.enabled|BOOLEAN|false|MEDIUM|20|SHORT|Enable UNNEST-based batch inserts for PostgreSQL
field.include.list|LIST|None|MEDIUM|23|LONG|Include Fields
field.exclude.list|LIST|None|MEDIUM|24|LONG|Exclude Fields
flush.max.retries|INT|5|LOW|25|SHORT|Max retry count
flush.retry.delay.ms|LONG|1000|LOW|26|SHORT|Delay to retry flush
connection.restart.on.errors|BOOLEAN|false|LOW|27|SHORT|Restart connection on errors
cloud.events.schema.name.pattern|STRING|.*CloudEvents\\.Envelope$|LOW|28|LONG|CloudEvents messages schema name pattern
""".strip().splitlines()


@pytest.mark.parametrize("line", SHOWN)
def test_validation_shows_the_keys_as_debeziums_connector_does(line: str) -> None:
    table = config_def()
    name = line.partition("|")[0]
    key = table.keys[name]
    assert key.default is not NO_DEFAULT
    assert key.group == "Connector"
    shown = (name, key.type.name, table.default_text(name), key.importance.name, key.order, key.width.name, key.display_name)
    assert "|".join(map(str, shown)) == line.replace("{default}", "io.debezium.sink.naming.DefaultCollectionNamingStrategy")


def test_the_connector_is_found_by_debeziums_name() -> None:
    assert any("io.debezium.connector.jdbc.JdbcSinkConnector" in entry.java_names for entry in PLUGINS)


def errors(**config: str) -> dict[str, list[str]]:
    given = {**GOOD, **{key.replace("__", "."): value for key, value in config.items()}}
    return {value.name: value.errors for value in DebeziumJdbcSink().check_config(given) if value.errors}


def test_a_good_configuration_has_no_errors() -> None:
    assert errors() == {}
    assert errors(insert__mode="UPSERT", primary__key__mode="Record_Key", delete__enabled="true") == {}
    assert errors(delete__enabled="true", primary__key__mode="record_header") == {}


@pytest.mark.parametrize(
    ("config", "key", "text"),
    [
        ({"connection__url": ""}, "connection.url", "The 'connection.url' value '' is invalid: A value is required"),
        (
            {"insert__mode": "nope"},
            "insert.mode",
            "The 'insert.mode' value 'nope' is invalid: Value must be one of upsert, insert, update",
        ),
        (
            {"primary__key__mode": "record_keys"},
            "primary.key.mode",
            "The 'primary.key.mode' value 'record_keys' is invalid: Value must be one of record_key, record_value, kafka, "
            "record_header, none; did you mean record_key?",
        ),
        (
            {"schema__evolution": "advanced"},
            "schema.evolution",
            "The 'schema.evolution' value 'advanced' is invalid: Value must be one of none, basic, validate-only",
        ),
        (
            {"delete__enabled": "true", "primary__key__mode": "kafka"},
            "delete.enabled",
            "When 'delete.enabled' is set to 'true', the 'primary.key.mode' option must be set to 'record_key', 'record_value', "
            "or 'record_header'.",
        ),
        (
            {"field__include__list": "a", "field__exclude__list": "b"},
            "field.exclude.list",
            "Cannot define both column.exclude.list and column.include.list. Please specify only one.",
        ),
        ({"field__include__list": "a:b:c"}, "field.include.list", "'a:b:c' does not have the form <field> or <topic>:<field>"),
        (
            {"batch__size": "x"},
            "batch.size",
            "Invalid value x for configuration batch.size: Not a number of type INT",
        ),
        (
            {"delete__enabled": "maybe"},
            "delete.enabled",
            "Invalid value maybe for configuration delete.enabled: Expected value to be either true or false",
        ),
    ],
)
def test_error_for_an_invalid_value_has_debeziums_message(config: dict[str, str], key: str, text: str) -> None:
    assert errors(**config) == {key: [text]}


@pytest.mark.parametrize("mode", ["upsert", "update"])
def test_upserts_and_updates_without_a_key_are_refused(mode: str) -> None:
    (text,) = errors(insert__mode=mode)["primary.key.mode"]
    assert text.startswith(f"When using {mode.upper()}, please define 'primary.key.mode' and 'primary.key.fields'")


def test_unknown_java_classes_are_rejected_with_the_known_ones() -> None:
    (text,) = errors(collection__naming__strategy="no.such.Class")["collection.naming.strategy"]
    assert "Class no.such.Class could not be found" in text
    assert "PassthroughCollectionNamingStrategy" in text
    assert "column.naming.strategy" in errors(column__naming__strategy="no.such.Class")


def test_keys_of_confluents_sink_are_pointed_out() -> None:
    assert errors(pk__mode="record_key", auto__create="true") == {
        "primary.key.mode": ["pk.mode is a key of the JDBC sinks of Confluent and Aiven; here it is primary.key.mode"],
        "schema.evolution": ["auto.create is a key of the JDBC sinks of Confluent and Aiven; here it is schema.evolution"],
    }


def test_old_names_of_keys_count_unless_the_new_ones_are_set() -> None:
    old = {
        "table.name.format": "old_${topic}",
        "table.naming.strategy": "io.debezium.sink.naming.PassthroughCollectionNamingStrategy",
    }
    _, config = parse_debezium_config({**GOOD, **old})
    assert config.names.name_for("a.b") == "old_a.b"
    _, config = parse_debezium_config({**GOOD, **old, "collection.name.format": "new_${topic}"})
    assert config.names.name_for("a.b") == "new_a.b"


def test_values_reach_the_writer() -> None:
    given = {
        "insert.mode": "update", "primary.key.mode": "record_value", "primary.key.fields": " a , b", "batch.size": "7",
        "schema.evolution": "basic", "flush.max.retries": "9", "flush.retry.delay.ms": "3", "errors.tolerance": "all",
    }  # fmt: skip
    settings, config = parse_debezium_config({**GOOD, **given})
    assert (settings.insert_mode, settings.batch_rows, settings.max_retries) == (InsertMode.UPDATE, 7, 9)
    assert (settings.retry_backoff_ms, settings.creates_tables, settings.adds_columns) == (3, True, True)
    assert settings.tolerates_errors
    assert (config.key_mode, config.key_fields) == (DebeziumKeyMode.RECORD_VALUE, ("a", "b"))


def test_hibernate_keys_that_would_change_the_result_cause_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        DebeziumJdbcSink().start({**GOOD, "hibernate.default_schema": "x", "hibernate.show_sql": "true"})
    assert [record.args for record in caplog.records if "no effect" in record.message] == [("hibernate.default_schema",)]


def test_validation_connects_and_shows_what_the_database_says(tmp_path: Path) -> None:
    values = DebeziumJdbcSink().validate({**GOOD, "connection.url": "postgresql://127.0.0.1:1/shop", "connection.attempts": "1"})
    assert [value.name for value in values if value.errors] == ["connection.url"]
    values = DebeziumJdbcSink().validate({**GOOD, "connection.url": f"jdbc:sqlite:{tmp_path}/no/x.db"})
    assert [value.name for value in values if value.errors] == ["connection.url"]


def test_task_reports_a_missing_url_too() -> None:
    with pytest.raises(ConfigError, match=r"'connection\.url' value '' is invalid: A value is required"):
        DebeziumJdbcSink().start({"name": "s", "topics": "t"})


def test_validate_only_requires_the_tables_at_startup(tmp_path: Path) -> None:
    config = {"connection.url": f"jdbc:sqlite:{tmp_path}/x.db", "schema.evolution": "validate-only", "topics": "people,orders"}
    sink = DebeziumSink(config)
    with pytest.raises(ConnectError, match="Table people does not exist"):
        sink.__enter__()
    sink.__exit__()


def test_tasks_get_the_whole_configuration() -> None:
    connector = DebeziumJdbcSink()
    connector.start(GOOD)
    assert connector.task_configs(2) == [GOOD, GOOD]
    connector.stop()
