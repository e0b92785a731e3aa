"""Tables that are read, also when they are created, altered and dropped; and validation against the database."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from connect.errors import ConfigError, ConnectError
from connectors.jdbc import AivenJdbcSource, JdbcSource
from tests.integration.jdbc.source.conftest import Database, Sources, column, rows
from tests.support.waiting import WAIT_S


def make(*tables: str) -> list[str]:
    made = [f"CREATE TABLE {table} (id INTEGER NOT NULL PRIMARY KEY)" for table in tables]
    return made + [f"INSERT INTO {table} VALUES (1)" for table in tables]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"table_whitelist": "orders,public.Items"}, {"orders", "Items"}),
        ({"table_blacklist": "orders"}, {"Items", "orders_old"}),
        ({"table_include_list": r"public\.orders.*", "table_exclude_list": r".*_old"}, {"orders"}),
        ({"table_include_list": r"orders"}, set()),
        ({"schema_pattern": "pub%", "table_types": "VIEW"}, {"orders_seen"}),
        ({"schema_pattern": "other"}, {"orders"}),
        ({"table_include_list": r"other\..*", "topic_name_format": "${schema}.${table}"}, {"other.orders"}),
    ],
)
def test_lists_and_patterns_select_the_tables(
    postgres: Database, start: Sources, keys: dict[str, str], expected: set[str]
) -> None:
    postgres.execute(
        "CREATE SCHEMA other",
        *make("orders", '"Items"', "orders_old", "other.orders"),
        "CREATE VIEW orders_seen AS SELECT * FROM orders",
    )
    if "schema_pattern" not in keys and "include" not in "".join(keys):
        keys = {**keys, "schema_pattern": "public"}
    source = start(postgres, keys, mode="bulk", poll_interval_ms="60000")
    found = source.read(len(expected))
    assert {record.topic.removeprefix("p-") for record in found} == expected


def test_error_for_tables_with_the_same_name_in_two_schemas_says_what_to_do(postgres: Database, start: Sources) -> None:
    postgres.execute("CREATE SCHEMA other", *make("orders", "other.orders"))
    with pytest.raises(
        ConnectError, match=r"other\.orders and public\.orders would have the same topic p-orders.*topic\.name\.format"
    ):
        start(postgres, mode="bulk")
    keys = {"topic_name_format": "${schema}-${table}"}
    found = start(postgres, keys, mode="bulk", poll_interval_ms="60000").read(2)
    assert {record.topic for record in found} == {"p-public-orders", "p-other-orders"}


def test_bare_names_are_found_by_the_search_path(postgres: Database, start: Sources) -> None:
    postgres.execute("CREATE SCHEMA other", *make("orders", "other.orders"), "INSERT INTO other.orders VALUES (2)")
    source = start(
        postgres, mode="incrementing", incrementing_column_name="id", table_names_qualify="false", kind=AivenJdbcSource
    )
    (record,) = source.read(1)
    assert (record.source_partition, record.value["id"]) == ({"protocol": "1", "table": "orders"}, 1)


def test_tables_are_split_between_tasks(database: Database, start: Sources) -> None:
    database.execute(*make("a", "b", "c", "d", "e"))
    source = start(database, tasks=2, mode="bulk", poll_interval_ms="60000")
    by_task = [[record.topic for record in harness.poll() + harness.poll() + harness.poll()] for harness in source.harnesses]
    assert by_task == [["p-a", "p-b", "p-c"], ["p-d", "p-e"]]
    assert len(start(database, tasks=9, mode="bulk").harnesses) == 5


def test_names_that_need_quotes_are_read(database: Database, start: Sources) -> None:
    odd = 'ta"b,le; DROP TABLE x --'
    quoted = '"' + odd.replace('"', '""') + '"'
    database.execute(f'CREATE TABLE {quoted} ("i d" INTEGER NOT NULL, "order" INTEGER)', f"INSERT INTO {quoted} VALUES (1, 2)")
    (record,) = start(database, mode="incrementing", incrementing_column_name="i d").read(1)
    assert record.source_partition == {"protocol": "1", "table": database.name(odd)}
    assert record.value.as_dict() == {"i d": 1, "order": 2}


def test_new_and_dropped_tables_cause_reassignment(database: Database, start: Sources) -> None:
    database.execute(*make("a"))
    keys = {"mode": "incrementing", "incrementing_column_name": "id", "table_poll_interval_ms": "30"}
    source = start(database, keys, tasks=3)
    assert [record.topic for record in source.read(1)] == ["p-a"]
    source.commit()
    database.execute(*make("b"))
    source.await_deal()
    assert [record.topic for record in source.read(1)] == ["p-b"]
    source.commit()
    database.execute("DROP TABLE a")
    source.await_deal(1)


def test_task_continues_without_a_dropped_table(database: Database, start: Sources, caplog: pytest.LogCaptureFixture) -> None:
    database.execute(*make("a", "b"))
    source = start(database, mode="incrementing", incrementing_column_name="id")
    source.read(2)
    database.execute("DROP TABLE a", "INSERT INTO b VALUES (2)")
    with caplog.at_level(logging.WARNING):
        assert [(record.topic, record.value["id"]) for record in source.read(1)] == [("p-b", 2)]
        source.read_until(lambda _: "does not exist in" in caplog.text)
    assert source.harnesses[0].task.progress()["missing_tables"] == [database.name("a")]
    database.execute("CREATE TABLE a (id INTEGER NOT NULL PRIMARY KEY)", "INSERT INTO a VALUES (7)")
    assert [record.topic for record in source.read(1)] == ["p-a"]


def test_added_and_dropped_columns_change_the_schema_of_later_rows(database: Database, start: Sources) -> None:
    database.execute("CREATE TABLE a (id INTEGER NOT NULL PRIMARY KEY, old INTEGER)", "INSERT INTO a VALUES (1, 5)")
    source = start(database, mode="incrementing", incrementing_column_name="id")
    first = source.read(1)
    database.execute("ALTER TABLE a ADD COLUMN note VARCHAR(10)", "INSERT INTO a VALUES (2, 6, 'x')")
    second = source.read(1)
    database.execute("ALTER TABLE a DROP COLUMN old", "INSERT INTO a VALUES (3, 'y')")
    third = source.read(1)
    assert rows(first + second + third) == [{"id": 1, "old": 5}, {"id": 2, "old": 6, "note": "x"}, {"id": 3, "note": "y"}]


def test_repeated_failure_to_list_tables_fails_the_connector(
    database: Database, start: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute(*make("a"))
    source = start(database, mode="bulk", table_poll_interval_ms="30", connection_attempts="2", connection_backoff_ms="10")
    monitor = source.connector._monitor
    assert monitor is not None
    calls = threading.Semaphore(0)

    def fail(_: object) -> list[object]:
        calls.release()
        raise ConnectError("no list today")

    monkeypatch.setattr(monitor, "_discover", fail)
    assert source.context.failed.wait(WAIT_S)
    assert [str(error) for error in source.context.errors] == ["no list today"]
    assert calls.acquire(blocking=False)
    assert calls.acquire(blocking=False)


def test_no_tables_means_no_tasks(database: Database, start: Sources) -> None:
    assert start(database, mode="bulk").harnesses == []


def validate(database: Database, **keys: str) -> Mapping[str, list[str]]:
    """Returns the errors by key."""
    config = {"topic.prefix": "p-", **database.config, **{name.replace("_", "."): value for name, value in keys.items()}}
    return {value.name: value.errors for value in JdbcSource().validate(config) if value.errors}


def test_validation_looks_for_the_columns(database: Database) -> None:
    database.execute(*make("orders"))
    assert validate(database, mode="incrementing", incrementing_column_name="id") == {}
    found = validate(database, mode="incrementing", incrementing_column_name="idd")
    assert "did you mean id?" in found["incrementing.column.name"][0]
    found = validate(database, mode="timestamp", timestamp_column_name="id,changed")
    assert "no such column" in found["timestamp.column.name"][0]


def test_validation_suggests_tables(database: Database) -> None:
    database.execute(*make("orders", "items"))
    values = AivenJdbcSource().validate({"topic.prefix": "p-", "mode": "bulk", **database.config})
    suggested = {value.name: value.recommended_values for value in values}
    assert suggested["table.whitelist"] == suggested["table.blacklist"] == ["items", "orders"]


def test_validation_reports_connection_errors(postgres: Database) -> None:
    for changes in ({"connection.url": "jdbc:postgresql://127.0.0.1:1/x"}, {"connection.password": "wr0ng-pass"}):
        values = JdbcSource().validate({"topic.prefix": "p-", "mode": "bulk", **postgres.config, **changes})
        found = {value.name: value.errors for value in values if value.errors}
        assert list(found) == ["connection.url"]
        assert "wr0ng-pass" not in str(found)
        assert postgres.config["connection.password"] not in str(found)


def test_unsupported_columns_are_errors_or_skipped(postgres: Database, start: Sources) -> None:
    postgres.execute("CREATE TABLE a (id INTEGER NOT NULL, x pg_node_tree)")
    postgres.execute("INSERT INTO a (id) VALUES (1)")
    with pytest.raises(ConnectError, match=r"a\.x has type pg_node_tree"):
        start(postgres, mode="bulk").read(1)
    assert column(start(postgres, mode="bulk", unsupported_columns="skip").read(1), "id") == [1]


def test_missing_database_file_is_an_error_and_is_not_created(tmp_path: Path) -> None:
    config = {"connection.url": f"jdbc:sqlite:{tmp_path}/shp.db", "mode": "bulk", "topic.prefix": "p-"}
    found = {value.name: value.errors for value in JdbcSource().validate(config) if value.errors}
    assert "does not exist" in found["connection.url"][0]
    with pytest.raises(ConfigError, match="does not exist"):
        JdbcSource().start(config)
    assert not list(tmp_path.iterdir())


def test_names_that_need_quotes_do_not_matter_if_they_are_not_read(database: Database, start: Sources) -> None:
    database.execute('CREATE TABLE "a,b" (id INTEGER)', "CREATE TABLE orders (id INTEGER)", "INSERT INTO orders VALUES (1)")
    keys = {"mode": "bulk", "quote_sql_identifiers": "never"}
    assert column(start(database, keys, table_whitelist="orders").read(1), "id")[0] == 1
