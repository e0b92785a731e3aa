"""Keys of the JDBC sink: validation like Confluent's and Aiven's connectors, and conflicts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from connect.config.definition import NO_DEFAULT
from connect.errors import ConfigError
from connectors.jdbc.flavor import ConnectorFlavor
from connectors.jdbc.options import InsertMode
from connectors.jdbc.sink.config import config_def, parse_sink_config
from connectors.jdbc.sink.connector import AivenJdbcSink, JdbcSink
from connectors.jdbc.sink.rows import KeyMode

GOOD = {"name": "s", "topics": "t", "connection.url": "jdbc:sqlite::memory:"}

# What the answer of Aiven's 6.12.0-SNAPSHOT to PUT .../config/validate says of its own keys.
AIVEN = """
connection.url|STRING|-|HIGH|Database|1|LONG|JDBC URL
connection.user|STRING|None|HIGH|Database|2|MEDIUM|JDBC User
connection.password|PASSWORD|None|HIGH|Database|3|MEDIUM|JDBC Password
db.timezone|STRING|UTC|MEDIUM|Database|4|MEDIUM|DB time zone
dialect.name|STRING||LOW|Database|5|MEDIUM|Database Dialect
sql.quote.identifiers|BOOLEAN|true|LOW|Database|6|SHORT|Quote SQL Identifiers
insert.mode|STRING|insert|HIGH|Writes|1|MEDIUM|Insert Mode
batch.size|INT|3000|MEDIUM|Writes|2|SHORT|Batch Size
delete.enabled|BOOLEAN|false|MEDIUM|Writes|3|SHORT|Delete enabled
table.name.format|STRING|${topic}|MEDIUM|Data Mapping|1|LONG|Table Name Format
table.name.normalize|BOOLEAN|false|MEDIUM|Data Mapping|2|LONG|Table Name Normalize
topics.to.tables.mapping|LIST|None|MEDIUM|Data Mapping|3|LONG|Topics To Tables Mapping
pk.mode|STRING|none|HIGH|Data Mapping|4|MEDIUM|Primary Key Mode
pk.fields|LIST||MEDIUM|Data Mapping|5|LONG|Primary Key Fields
fields.whitelist|LIST||MEDIUM|Data Mapping|6|LONG|Fields Whitelist
auto.create|BOOLEAN|false|MEDIUM|DDL Support|1|SHORT|Auto-Create
auto.evolve|BOOLEAN|false|MEDIUM|DDL Support|2|SHORT|Auto-Evolve
max.retries|INT|10|MEDIUM|Retries|1|SHORT|Maximum Retries
retry.backoff.ms|INT|3000|MEDIUM|Retries|2|SHORT|Retry Backoff (millis)
""".strip().splitlines()

# Of the Confluent connector: keys with their defaults.
CONFLUENT = {
    "connection.attempts": "3", "connection.backoff.ms": "10000", "dialect.name": "", "db.timezone": "UTC",
    "insert.mode": "insert", "batch.size": "3000", "delete.enabled": "false", "table.types": "TABLE",
    "replace.null.with.default": "true", "table.name.format": "${topic}", "pk.mode": "none", "pk.fields": "",
    "fields.whitelist": "", "date.timezone": "DB_TIMEZONE", "timestamp.fields.list": "",
    "timestamp.precision.mode": "microseconds", "date.calendar.system": "LEGACY",
    "string.output.value.column.name": "record_value", "auto.create": "false", "auto.evolve": "false",
    "quote.sql.identifiers": "always", "mssql.use.merge.holdlock": "true", "max.retries": "10", "retry.backoff.ms": "3000",
    "trim.sensitive.log": "false",
}  # fmt: skip


@pytest.mark.parametrize("line", AIVEN)
def test_validation_shows_aivens_keys_as_aivens_connector_does(line: str) -> None:
    table = config_def(ConnectorFlavor.AIVEN)
    name = line.partition("|")[0]
    key = table.keys[name]
    default = "-" if key.default is NO_DEFAULT else str(table.default_text(name))
    shown = (name, key.type.name, default, key.importance.name, key.group, key.order, key.width.name, key.display_name)
    assert "|".join(map(str, shown)) == line


def test_confluents_keys_have_its_defaults() -> None:
    table = config_def(ConnectorFlavor.CONFLUENT)
    assert {name: table.default_text(name) for name in CONFLUENT} == CONFLUENT


def test_both_classes_take_the_keys_of_both() -> None:
    assert set(config_def(ConnectorFlavor.AIVEN).keys) == set(config_def(ConnectorFlavor.CONFLUENT).keys)


def errors(connector: JdbcSink, **config: str) -> dict[str, list[str]]:
    given = {**GOOD, **{key.replace("__", "."): value for key, value in config.items()}}
    return {value.name: value.errors for value in connector.check_config(given) if value.errors}


def test_deletes_need_the_record_key() -> None:
    assert errors(AivenJdbcSink(), delete__enabled="true") == {
        "delete.enabled": ["Delete support only works with pk.mode=record_key"]
    }
    assert errors(JdbcSink(), delete__enabled="true") == {"delete.enabled": ["Deletes are only supported for pk.mode record_key"]}
    assert not errors(JdbcSink(), delete__enabled="true", pk__mode="record_key")


def test_key_fields_have_to_fit_the_mode() -> None:
    assert errors(AivenJdbcSink(), pk__fields="a") == {
        "pk.fields": ["Primary key fields should not be set when pkMode is 'none'."]
    }
    assert errors(AivenJdbcSink(), pk__mode="kafka") == {
        "pk.fields": ["Primary key fields must be set with three fields (topic, partition, offset) when pkMode is 'kafka'."]
    }
    assert not errors(JdbcSink(), pk__fields="a")
    assert not errors(JdbcSink(), pk__mode="kafka")
    assert list(errors(JdbcSink(), pk__mode="kafka", pk__fields="a")) == ["pk.fields"]


@pytest.mark.parametrize("mode", ["upsert", "update"])
def test_upserts_and_updates_need_a_key(mode: str) -> None:
    (message,) = errors(JdbcSink(), insert__mode=mode)["pk.mode"]
    assert f"{mode.upper()} mode requires key field names to be known, check the primary key configuration" in message


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("insert__mode", "upsrt", "Invalid value upsrt for configuration insert.mode: Invalid enumerator; did you mean upsert?"),
        ("pk__mode", "Record_Key", "Invalid enumerator"),
        ("batch__size", "-1", "Value must be at least 0"),
        ("topics__to__tables__mapping", "a:b,c", "Invalid topics to tables mapping"),
        ("table__types", "TABLE,SYNONYM", "Invalid enumerator"),
        ("db__timezone", "Mars/Olympus", "Mars/Olympus"),
        ("connection__url", "jdbc:derby:x", "Java"),
        ("dialect__name", "PostgreSqlDatabaseDialect", "connection.url is for sqlite"),
    ],
)
def test_invalid_value_is_reported_at_its_key(key: str, value: str, words: str) -> None:
    given = {key: value}
    if key == "connection__url":
        given = {"connection__url": value}
    found = errors(JdbcSink(), **given)
    assert list(found) == [key.replace("__", ".")]
    assert any(words in error for error in found[key.replace("__", ".")])


def test_errors_do_not_contain_the_password() -> None:
    found = errors(
        JdbcSink(), connection__url="jdbc:postgresql://me:geheim@:x:y/db?password=geheim", connection__password="geheim"
    )
    assert found
    assert "geheim" not in str(found)
    settings, _ = parse_sink_config({**GOOD, "connection.url": "postgresql://me:geheim@localhost/db"}, ConnectorFlavor.CONFLUENT)
    assert "geheim" not in repr(settings)


def test_keys_are_parsed_into_typed_values() -> None:
    settings, config = parse_sink_config(
        GOOD
        | {
            "insert.mode": "MULTI",
            "pk.mode": "record_value",
            "pk.fields": "id",
            "pk.fields.shop.people": "a, b",
            "sql.quote.identifiers": "false",
            "date.timezone": "utc",
            "db.timezone": "Europe/Berlin",
            "timestamp.precision.mode": "nanoseconds",
            "batch.size": "0",
            "errors.tolerance": "all",
            "topics.to.tables.mapping": "t:x,u:y",
        },
        ConnectorFlavor.CONFLUENT,
    )
    assert settings.insert_mode is InsertMode.INSERT
    assert (settings.batch_rows, settings.tolerates_errors, settings.connection.quotes) == (1, True, False)
    assert (str(settings.write.zone), str(settings.write.date_zone), settings.write.timestamp_unit_ns) == (
        "Europe/Berlin",
        "UTC",
        1,
    )
    assert settings.table_types == frozenset({"TABLE", "PARTITIONED TABLE"})
    assert config.fields.key_mode is KeyMode.RECORD_VALUE
    assert (config.fields.key_fields_for("t"), config.fields.key_fields_for("shop.people")) == (("id",), ("a", "b"))
    assert config.tables.by_topic == {"t": "x", "u": "y"}


def test_quote_key_of_confluent_overrides_the_one_of_aiven() -> None:
    for flavor in ConnectorFlavor:
        given = GOOD | {"sql.quote.identifiers": "false", "quote.sql.identifiers": "always"}
        assert parse_sink_config(given, flavor)[0].connection.quotes


def test_connector_does_not_start_with_an_invalid_configuration() -> None:
    with pytest.raises(ConfigError, match="Deletes are only supported"):
        JdbcSink().start(GOOD | {"delete.enabled": "true"})


def test_validation_does_not_create_a_database_file(tmp_path: Path) -> None:
    file = tmp_path / "new.db"
    given = GOOD | {"connection.url": f"jdbc:sqlite:{file}"}
    assert not [value.errors for value in JdbcSink().validate(given) if value.errors]
    assert not file.exists()
    missing = JdbcSink().validate(GOOD | {"connection.url": f"jdbc:sqlite:{tmp_path}/no/folder.db"})
    assert any(re.search("folder .* does not exist", error) for value in missing for error in value.errors)
