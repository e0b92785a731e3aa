"""Rows that each mode reads, and where it continues after a restart."""

from __future__ import annotations

import datetime as dt
import traceback
from typing import Any

import pytest

from connect.data.schema import Schema
from connect.errors import ConfigError, ConnectError
from connect.testing.conformance import check_source_connector
from connect.testing.harness import MemoryOffsets
from connectors.jdbc import AivenJdbcSource, JdbcSource
from tests.integration.jdbc.source.conftest import Database, Sources, column, rows

ORDERS = "CREATE TABLE orders (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(20), changed TIMESTAMP NOT NULL)"
T = "2024-01-02 03:04:05"


on_each_database = pytest.mark.parametrize("database", ["sqlite", "postgres", "mariadb"], indirect=True)
"""Of tests that depend on the SQL of the database, or on its types."""


@pytest.fixture(params=["sqlite", "postgres", pytest.param("mariadb", marks=pytest.mark.long)])
def database(request: pytest.FixtureRequest) -> Database:
    found: Database = request.getfixturevalue(request.param)
    return found


def insert(first: int, last: int, time: str = T) -> str:
    return "INSERT INTO orders VALUES " + ",".join(f"({n}, 'n{n}', '{time}')" for n in range(first, last + 1))


def test_bulk_reads_everything_again_and_again_without_offsets(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(1, 3))
    records = start(database, mode="bulk").read(6)
    assert column(records[:6], "id") == [1, 2, 3, 1, 2, 3]
    assert {record.topic for record in records} == {"p-orders"}
    first = records[0]
    assert (first.source_partition, first.source_offset) == ({"table": "orders"}, None)
    assert (first.key, first.key_schema, first.partition, first.headers) == (None, None, None, None)
    assert first.value_schema is not None
    assert (first.value_schema.name, first.value_schema.field_names) == ("orders", ("id", "name", "changed"))
    assert rows(records)[0] == {"id": 1, "name": "n1", "changed": dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC)}
    assert len({id(record.value_schema) for record in records}) == 1


def test_source_is_loaded_when_each_table_was_read_once_except_in_bulk_mode(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(1, 3), ORDERS.replace("orders", "empty"))
    source = start(database, tasks=1, mode="incrementing", incrementing_column_name="id", batch_max_rows="2")
    (task,) = [harness.task for harness in source.harnesses]
    assert task.is_loaded() is False
    assert column(source.read_until(lambda _: bool(task.is_loaded())), "id") == [1, 2, 3]
    bulk = start(database, mode="bulk")
    bulk.read(3)
    assert {harness.task.is_loaded() for harness in bulk.harnesses} == {None}


@on_each_database
def test_incrementing_reads_new_rows(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(0, 3))
    source = start(database, mode="incrementing", incrementing_column_name="ID")
    records = source.read(4)
    partition = {"protocol": "1", "table": database.name("orders")}
    assert [(r.source_partition, r.source_offset) for r in records] == [(partition, {"incrementing": n}) for n in range(4)]
    database.execute("UPDATE orders SET name = 'changed'", insert(5, 5), insert(4, 4))
    assert column(source.read(2), "id") == [4, 5]
    source.commit()
    database.execute(insert(6, 6))
    assert column(start(database, offsets=source.offsets, mode="incrementing", incrementing_column_name="id").read(1), "id") == [
        6
    ]


@on_each_database
def test_incrementing_finds_the_auto_increment_column(database: Database, start: Sources) -> None:
    kind = "INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL" if database.kind == "sqlite" else "SERIAL PRIMARY KEY"
    database.execute(f"CREATE TABLE orders (name TEXT, nr {kind})", "INSERT INTO orders (name) VALUES ('a'), ('b')")
    assert start(database, mode="incrementing").read(2)[-1].source_offset == {"incrementing": 2}


def test_error_for_a_table_without_auto_increment_column_lists_its_columns(database: Database, start: Sources) -> None:
    database.execute("CREATE TABLE orders (a VARCHAR(5) NOT NULL, b VARCHAR(5))")
    with pytest.raises(ConfigError, match=r"orders has no auto-increment column; .* one of a, b"):
        start(database, mode="incrementing").read(1)


def test_only_rows_after_the_initial_value_are_read(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(-3, 3))
    keys = {"mode": "incrementing", "incrementing_column_name": "id"}
    assert column(start(database, keys, incrementing_initial="-2").read(4), "id")[:2] == [-1, 0]
    assert column(start(database, keys).read(4), "id") == [0, 1, 2, 3]


@on_each_database
def test_timestamp_reads_changed_rows_and_never_splits_equal_timestamps(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(1, 3), insert(4, 4, "2024-01-02 03:04:06.123456"))
    keys = {"mode": "timestamp", "timestamp_column_name": "changed"}
    source = start(database, keys, batch_max_rows="2")
    records = source.read(4)
    t1 = {"timestamp": 1704164645000, "timestamp_nanos": 0}
    t2 = {"timestamp": 1704164646123, "timestamp_nanos": 123456000}
    assert [record.source_offset for record in records] == [None, None, t1, t2]
    partition = {"protocol": "1", "table": database.name("orders")}
    offsets = MemoryOffsets()
    offsets.store(partition, t1)
    assert column(start(database, keys, offsets=offsets).read(1), "id") == [4]
    offsets.store(partition, t2)
    restarted = start(database, keys, offsets=offsets)
    assert restarted.poll() == []
    database.execute("UPDATE orders SET changed = '2024-01-02 03:04:06.123457' WHERE id = 2")
    assert column(restarted.read(1), "id") == [2]


def test_microseconds_neither_repeat_nor_get_lost(database: Database, start: Sources) -> None:
    database.execute(ORDERS, *(insert(n, n, f"2024-01-02 03:04:05.00000{n}") for n in range(1, 6)))
    keys = {"mode": "timestamp", "timestamp_column_name": "changed", "batch_max_rows": "1"}
    offsets = MemoryOffsets()
    seen: list[int] = []
    for _ in range(5):
        source = start(database, keys, offsets=offsets)
        records = source.read(1)
        source.commit()
        seen += column(records, "id")
        source.stop()
    assert seen == [1, 2, 3, 4, 5]


@on_each_database
def test_timestamp_incrementing_gives_every_row_an_offset(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(1, 3))
    keys = {"mode": "timestamp+incrementing", "timestamp_column_name": "changed", "incrementing_column_name": "id"}
    records = start(database, keys).read(3)
    time = {"timestamp": 1704164645000, "timestamp_nanos": 0}
    assert [record.source_offset for record in records] == [{"incrementing": n, **time} for n in (1, 2, 3)]
    offsets = MemoryOffsets()
    offsets.store({"protocol": "1", "table": database.name("orders")}, {"incrementing": 2, **time})
    database.execute("UPDATE orders SET changed = '2024-01-02 03:04:05.5' WHERE id = 1")
    assert column(start(database, keys, offsets=offsets).read(2), "id") == [3, 1]


def test_of_several_timestamp_columns_the_first_that_is_not_null_counts(database: Database, start: Sources) -> None:
    database.execute(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, changed TIMESTAMP, made TIMESTAMP NOT NULL)",
        f"INSERT INTO orders VALUES (1, NULL, '{T}'), (2, '2024-01-02 03:04:07', '{T}'), (3, NULL, '2024-01-02 03:04:06')",
    )
    keys = {"mode": "timestamp", "timestamp_column_name": "changed,made"}
    source = start(database, keys)
    assert column(source.read(3), "id") == [1, 3, 2]
    source.commit()
    restarted = start(database, keys, offsets=source.offsets)
    assert restarted.poll() == []
    database.execute("UPDATE orders SET changed = '2024-01-02 03:04:08' WHERE id = 1")
    assert column(restarted.read(1), "id") == [1]


def test_columns_can_be_configured_per_table(database: Database, start: Sources) -> None:
    database.execute(
        ORDERS,
        insert(1, 1),
        "CREATE TABLE items (nr INTEGER NOT NULL, at TIMESTAMP NOT NULL)",
        f"INSERT INTO items VALUES (7, '{T}')",
    )
    source = start(
        database,
        mode="timestamp+incrementing",
        incrementing_column_mapping=".*orders:id,.*items:nr",
        timestamp_columns_mapping=".*orders:[changed],.*items:[at]",
    )
    assert {r.topic: (r.source_offset or {})["incrementing"] for r in source.read(2)} == {"p-orders": 1, "p-items": 7}


@on_each_database
def test_future_and_delayed_rows_wait_for_the_databases_clock(database: Database, start: Sources) -> None:
    past = {
        "sqlite": "datetime('now', '-30 seconds')",
        "postgres": "timezone('UTC', now()) - interval '30 seconds'",
        "mariadb": "utc_timestamp() - interval 30 second",
    }[database.kind]
    database.execute(ORDERS, insert(1, 1), insert(2, 2, "2999-01-01 00:00:00"), f"INSERT INTO orders SELECT 3, 'x', {past}")
    keys = {"mode": "timestamp", "timestamp_column_name": "changed"}
    assert column(start(database, keys, timestamp_delay_interval_ms="3600000").read(1), "id") == [1]
    assert column(start(database, keys, timestamp_delay_interval_ms="5000").read(2), "id") == [1, 3]


def test_rows_before_the_initial_timestamp_are_not_read(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(1, 1), insert(2, 2, "2024-01-02 03:04:06"))
    keys = {"mode": "timestamp", "timestamp_column_name": "changed"}
    assert column(start(database, keys, timestamp_initial="1704164645000").read(1), "id") == [2]
    assert column(start(database, keys, timestamp_initial_ms="1704164645000", kind=AivenJdbcSource).read(1), "id") == [2]
    assert start(database, keys, timestamp_initial="-1").poll() == []


@on_each_database
def test_timestamps_without_zone_are_in_the_configured_zone(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(1, 1))
    keys = {"mode": "timestamp", "timestamp_column_name": "changed", "db_timezone": "Europe/Berlin"}
    source = start(database, keys)
    (record,) = source.read(1)
    assert record.source_offset == {"timestamp": 1704161045000, "timestamp_nanos": 0}
    assert record.value["changed"] == dt.datetime(2024, 1, 2, 2, 4, 5, tzinfo=dt.UTC)
    source.commit()
    assert start(database, keys, offsets=source.offsets).poll() == []


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"mode": "incrementing", "incrementing_column_name": "id"}, "incrementing column id"),
        ({"mode": "timestamp", "timestamp_column_name": "changed"}, r"timestamp columns \[changed\]"),
    ],
)
def test_nullable_columns_are_rejected_unless_allowed(
    database: Database, start: Sources, keys: dict[str, str], words: str
) -> None:
    database.execute("CREATE TABLE orders (id INTEGER, changed TIMESTAMP)", f"INSERT INTO orders VALUES (1, '{T}'), (NULL, NULL)")
    with pytest.raises(ConfigError, match=words):
        start(database, keys).read(1)
    assert len(start(database, keys, validate_non_null="false").read(1)) == 1


def test_offset_in_the_oldest_format_is_continued(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(1, 3))
    offsets = MemoryOffsets()
    offsets.store({"table": "orders"}, {"incrementing": 2})
    source = start(database, offsets=offsets, mode="incrementing", incrementing_column_name="id")
    (record,) = source.read(1)
    assert record.source_partition == {"protocol": "1", "table": database.name("orders")}
    assert record.source_offset == {"incrementing": 3}


@on_each_database
def test_numbers_may_be_decimals_without_fraction(database: Database, start: Sources) -> None:
    database.execute("CREATE TABLE orders (id NUMERIC(20, 0) NOT NULL)", "INSERT INTO orders VALUES (5), (1000000000000)")
    records = start(database, mode="incrementing", incrementing_column_name="id").read(2)
    assert [record.source_offset for record in records] == [{"incrementing": 5}, {"incrementing": 1000000000000}]


def test_a_query_is_read_by_one_task_into_the_topic_of_the_prefix(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(1, 3))
    source = start(database, tasks=5, mode="bulk", query="SELECT id, name AS label FROM orders WHERE id > 1 ORDER BY id")
    assert len(source.harnesses) == 1
    record = source.read(2)[0]
    assert (record.topic, record.source_partition, record.source_offset) == ("p-", {"query": "query"}, None)
    assert record.value_schema is not None
    assert record.value_schema.name is None
    assert record.value.as_dict() == {"id": 2, "label": "n2"}


@on_each_database
def test_an_incremental_query_gets_its_conditions_appended(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(1, 5))
    query = "WITH few AS (SELECT * FROM orders WHERE id <> 3) SELECT id, changed FROM few"
    keys = {"incrementing_column_name": "id", "timestamp_column_name": "changed", "mode": "timestamp+incrementing"}
    source = start(database, keys, query_masked=query + ";", query_suffix="LIMIT 2")
    records = source.read(4)
    assert column(records, "id") == [1, 2, 4, 5]
    assert records[-1].source_partition == {"query": "query"}
    assert records[-1].source_offset == {"incrementing": 5, "timestamp": 1704164645000, "timestamp_nanos": 0}
    source.commit()
    database.execute(insert(6, 6, "2024-01-02 03:04:06"))
    assert column(start(database, keys, offsets=source.offsets, query=query).read(1), "id") == [6]


def test_error_for_a_missing_column_of_a_query_names_the_nearest_one(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(1, 1))
    query = "SELECT * FROM (SELECT id, name FROM orders) t"
    with pytest.raises(ConnectError, match="idd"):
        start(database, query=query, mode="incrementing", incrementing_column_name="idd").read(1)


@on_each_database
def test_query_that_changes_rows_is_rejected_and_rolled_back(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(1, 3))
    with pytest.raises(ConnectError, match=r"no columns|no rows|syntax error"):
        start(database, mode="bulk", query="DELETE FROM orders").poll()
    assert column(start(database, mode="bulk").read(3), "id") == [1, 2, 3]


def test_error_names_columns_of_an_unsuitable_type(postgres: Database, start: Sources) -> None:
    postgres.execute(ORDERS, insert(1, 3))
    with pytest.raises(ConnectError, match=r"mode=timestamp goes by id \(integer\)"):
        start(postgres, mode="timestamp", timestamp_column_name="id").poll()
    with pytest.raises(ConnectError, match=r"mode=incrementing goes by name \(character varying\(20\)\)"):
        start(postgres, mode="incrementing", incrementing_column_name="name", validate_non_null="false").poll()


def test_record_keys_come_from_configured_columns(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(1, 1))
    (record,) = start(database, mode="incrementing", incrementing_column_name="id", key_columns="auto").read(1)
    assert record.key_schema is not None
    assert (record.key_schema.name, record.key.as_dict()) == ("orders.Key", {"id": 1})
    (record,) = start(
        database, mode="incrementing", incrementing_column_name="id", key_columns="orders:id", key_format="primitive"
    ).read(1)
    assert record.value_schema is not None
    column_field = record.value_schema.field("id")
    assert column_field is not None
    assert (record.key_schema, record.key) == (column_field.schema, 1)
    assert record.key_schema is not None
    assert record.key_schema.type in (Schema.INT32.type, Schema.INT64.type)


def test_batches_do_not_exceed_the_configured_size(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(1, 25))
    for keys in (
        {"mode": "incrementing", "incrementing_column_name": "id"},
        {"mode": "timestamp", "timestamp_column_name": "changed"},
    ):
        source = start(database, keys, batch_max_rows="10")
        sizes: list[int] = []
        while sum(sizes) < 25:
            sizes.append(len(source.poll()))
        assert max(sizes) == 10


def conformant(database: Database, **keys: str) -> dict[str, str]:
    return {
        **database.config,
        "topic.prefix": "p-",
        "poll.interval.ms": "20",
        **{k.replace("_", "."): v for k, v in keys.items()},
    }


@on_each_database
def test_source_passes_the_conformance_suite(database: Database) -> None:
    database.execute(ORDERS, insert(1, 30))
    check_source_connector(JdbcSource, conformant(database, mode="incrementing", incrementing_column_name="id"), records=30)


def test_aiven_source_in_timestamp_incrementing_mode_passes_the_conformance_suite(sqlite: Database) -> None:
    sqlite.execute(ORDERS, insert(1, 15), insert(16, 30, "2024-01-02 03:04:06.5"))
    keys: dict[str, Any] = {"timestamp_column_name": "changed", "incrementing_column_name": "id"}
    check_source_connector(AivenJdbcSource, conformant(sqlite, mode="timestamp+incrementing", **keys), records=30)


def test_columns_of_the_wrong_type_are_rejected(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(1, 2))
    for keys in ({}, {"query": "SELECT * FROM orders"}):
        with pytest.raises(ConnectError, match="changed"):
            start(database, keys, mode="incrementing", incrementing_column_name="changed").read(1)
        with pytest.raises(ConnectError, match="id"):
            start(database, keys, mode="timestamp", timestamp_column_name="id").read(1)
        with pytest.raises(ConnectError, match="name"):
            start(database, keys, mode="timestamp", timestamp_column_name="name", validate_non_null="false").read(1)


def test_a_comment_at_the_end_of_a_query_hides_nothing(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(1, 2))
    keys = {"mode": "incrementing", "incrementing_column_name": "id", "query": "SELECT * FROM orders -- all"}
    source = start(database, keys)
    assert column(source.read(2), "id") == [1, 2]
    database.execute(insert(3, 3))
    assert column(source.read(1), "id") == [3]
    assert column(start(database, mode="bulk", query=keys["query"]).read(3), "id")[:3] == [1, 2, 3]


def test_error_for_a_query_with_its_own_where_says_how_to_wrap_it(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(1, 2))
    keys = {"mode": "incrementing", "incrementing_column_name": "id"}
    with pytest.raises(ConnectError, match=r"goes by id and appends WHERE and ORDER BY .* SELECT \* FROM \(SELECT \.\.\.\) t"):
        start(database, keys, query="SELECT * FROM orders WHERE id > 0").read(1)


def test_error_for_duplicate_columns_says_what_to_do(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(1, 1))
    with pytest.raises(ConnectError, match="2 columns named id; rename them with AS"):
        start(database, mode="bulk", query="SELECT id, id FROM orders").read(1)


@pytest.mark.parametrize("mode", ["bulk", "incrementing"])
def test_messages_do_not_contain_a_masked_query(database: Database, start: Sources, mode: str) -> None:
    database.execute(ORDERS, insert(1, 1))
    for query in ("SELECT hush FROM orders", "SELEC 'hush'", "SELECT * FROM orders WHERE name = 'hush' wher 1"):
        with pytest.raises(ConnectError, match="masked") as caught:
            start(database, mode=mode, incrementing_column_name="id", query_masked=query).read(1)
        assert "hush" not in "".join(traceback.format_exception(caught.value))
