"""Selection of tables, task assignment, topics, and record keys."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import ConfigError, ConnectError
from connectors.jdbc.catalog import JdbcColumn, JdbcTable
from connectors.jdbc.config_validators import compile_pattern
from connectors.jdbc.database import Database
from connectors.jdbc.flavor import ConnectorFlavor
from connectors.jdbc.source.chunk_plans import ChunkPlan, ChunkProgress, find_stored_plan
from connectors.jdbc.source.config import parse_source_config
from connectors.jdbc.source.record_keys import RecordKeyBuilder, RecordKeyConfig, parse_record_keys
from connectors.jdbc.source.table_discovery import DiscoveredTables, TableDiscovery, list_tables
from connectors.jdbc.source.table_selection import (
    find_mapped_columns,
    format_topic,
    nearest_table,
    require_distinct_topics,
)
from connectors.jdbc.source.task import JdbcSourceTask
from connectors.jdbc.source.task_assignment import assign_tasks, format_names, group_evenly, parse_assignment, parse_names
from connectors.jdbc.table_name import TableName

ORDERS, ITEMS, OTHER = TableName("orders", "public"), TableName("items", "public"), TableName("orders", "other")


@pytest.mark.parametrize(
    ("items", "groups", "expected"),
    [(5, 2, [3, 2]), (7, 3, [3, 2, 2]), (2, 2, [1, 1]), (3, 1, [3]), (0, 0, [])],
)
def test_tables_are_assigned_in_even_groups_of_neighbors(items: int, groups: int, expected: list[int]) -> None:
    found = group_evenly(list(range(items)), groups)
    assert [len(group) for group in found] == expected
    assert [item for group in found for item in group] == list(range(items))


@pytest.mark.parametrize(
    "table", [TableName("t"), TableName("t", "s", "c"), TableName('a"b,c', "x.y"), TableName("`[]", "naïve schema")]
)
def test_table_names_survive_a_round_trip_through_a_task_configuration(table: TableName) -> None:
    assert parse_names(format_names([table, ORDERS])) == [table, ORDERS]
    assert parse_names("") == []


def test_topics_are_prefix_and_bare_name_unless_configured() -> None:
    assert format_topic(ORDERS, "pg-", "${table}") == "pg-orders"
    assert format_topic(TableName("orders", "public", "shop"), "", "${catalog}.${schema}.${table}") == "shop.public.orders"


def test_error_for_a_shared_topic_names_both_tables_and_the_fix() -> None:
    topics = {table: format_topic(table, "p-", "${table}") for table in (ORDERS, ITEMS, OTHER)}
    with pytest.raises(ConnectError) as caught:
        require_distinct_topics([ORDERS, ITEMS, OTHER], topics)
    assert "public.orders and other.orders" in caught.value.message
    assert "topic.name.format=${schema}.${table}" in caught.value.message


def test_a_mapping_must_match_a_table_exactly_once() -> None:
    mapping = ((compile_pattern("k", r"public\..*"), ("a",)), (compile_pattern("k", r".*\.orders"), ("b", "c")))
    assert find_mapped_columns(mapping, ITEMS, "k") == ("a",)
    assert find_mapped_columns(mapping, OTHER, "k") == ("b", "c")
    with pytest.raises(ConfigError, match=r"exactly one .* but those for a and b\|c match"):
        find_mapped_columns(mapping, ORDERS, "k")
    with pytest.raises(ConfigError, match="none matches"):
        find_mapped_columns(mapping, TableName("x", "y"), "k")


VALUE = Schema(Type.STRUCT, name="orders", fields=[("id", Schema.INT64), ("Shop", Schema.STRING), ("n", Schema.OPTIONAL_INT32)])
TABLE = JdbcTable(ORDERS, tuple(JdbcColumn(name, "int") for name in ("id", "Shop", "n")), primary_key=("id",))


def test_record_keys_are_none_the_primary_key_or_configured_columns() -> None:
    assert RecordKeyConfig().columns_of(ORDERS, TABLE) == ()
    assert parse_record_keys("auto", primitive=False).columns_of(ORDERS, TABLE) == ("id",)
    assert parse_record_keys("a, b", primitive=False).columns_of(None, None) == ("a", "b")
    group_by_table = parse_record_keys("public.orders:id,shop;items:x", primitive=False)
    assert group_by_table.columns_of(ORDERS, TABLE) == ("id", "shop")
    assert group_by_table.columns_of(ITEMS, None) == ("x",)
    assert group_by_table.columns_of(OTHER, None) == ()


def test_a_key_is_a_struct_or_the_bare_value() -> None:
    rows = [[1, "a", None], [2, "b", 5]]
    maker = RecordKeyBuilder.create(("id", "shop"), VALUE, "orders.Key", primitive=False)
    assert maker.schema.name == "orders.Key"
    assert maker.keys(rows) == [Struct(maker.schema, [1, "a"]), Struct(maker.schema, [2, "b"])]
    bare = RecordKeyBuilder.create(("id",), VALUE, None, primitive=True)
    assert (bare.schema, bare.keys(rows)) == (Schema.INT64, [1, 2])


def test_error_names_missing_key_columns() -> None:
    with pytest.raises(ConnectError, match=r"key\.columns names idd, but the rows of orders have id, Shop, n"):
        RecordKeyBuilder.create(("idd",), VALUE, None, primitive=False)
    with pytest.raises(ConfigError, match="needs one key column"):
        parse_record_keys("id,n", primitive=True).columns_of(ORDERS, TABLE)
    with pytest.raises(ConfigError, match="name is empty"):
        parse_record_keys("id,,n", primitive=False)


PLAN = ChunkPlan("id", (10, 20, 30), 40, number=41)


def test_chunks_are_adjacent_ranges() -> None:
    assert [PLAN.limits(chunk) for chunk in range(PLAN.chunks)] == [(None, 10), (10, 20), (20, 30), (30, None)]
    assert ChunkPlan.parse(PLAN.json_text) == PLAN
    texts = ChunkPlan("k", ("a", "ü'\"", "z"), 9, time_ns=5)
    assert ChunkPlan.parse(texts.json_text) == texts


def test_progress_of_another_plan_is_no_progress() -> None:
    offset = {"plan": PLAN.json_text, "at": 15}
    assert ChunkProgress.parse(offset, PLAN) == ChunkProgress(15)
    assert ChunkProgress.parse({**offset, "done": True}, PLAN) == ChunkProgress(15, done=True)
    assert ChunkProgress.parse(offset, ChunkPlan("id", (11, 20, 30), 40, number=41)) == ChunkProgress()


def test_plan_is_found_in_the_offset_of_any_chunk() -> None:
    done = {"plan": PLAN.json_text, "at": 20, "done": True}
    assert find_stored_plan([None, None, done], unfinished=False) == PLAN
    assert find_stored_plan([None] * 256, unfinished=False) is None
    assert find_stored_plan([done] * 4, unfinished=True) is None
    assert find_stored_plan([done] * 3, unfinished=True) == PLAN


def test_tables_and_chunks_are_assigned_to_all_tasks() -> None:
    survey = DiscoveredTables((ORDERS, ITEMS), {ORDERS: PLAN})
    shares = [parse_assignment(config) for config in assign_tasks(survey, 3)]
    assert [tables for tables, _ in shares] == [[ORDERS], [ITEMS], []]
    assert [[share.chunks for share in found] for _, found in shares] == [[(0, 3)], [(1,)], [(2,)]]
    assert all(share.plan == PLAN and share.table == ORDERS for _, found in shares for share in found)


def test_task_that_reads_a_table_after_its_chunks_gets_the_plan() -> None:
    small = ChunkPlan("id", (10,), 20, number=21)
    configs = assign_tasks(DiscoveredTables((ITEMS, OTHER, ORDERS), {ORDERS: small}), 5)
    tables, shares = parse_assignment(configs[2])
    assert tables == [ORDERS]
    assert [(share.table, share.chunks) for share in shares] == [(ORDERS, ())]


def test_without_chunks_there_are_as_many_tasks_as_tables_at_most() -> None:
    assert [config["tables"] for config in assign_tasks(DiscoveredTables((ORDERS, ITEMS)), 5)] == [
        '"public"."orders"',
        '"public"."items"',
    ]
    assert [config["tables"] for config in assign_tasks(DiscoveredTables((ORDERS, ITEMS)), 1)] == [
        '"public"."orders","public"."items"'
    ]
    assert assign_tasks(DiscoveredTables(()), 3) == []


class NoOffsets:
    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        return None

    def offsets(self, partitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
        return [None for _ in partitions]


def test_tasks_have_not_loaded_while_the_first_tables_are_planned(tmp_path: Path) -> None:
    config = {
        "connection.url": f"jdbc:sqlite:{tmp_path}/shop.db",
        "mode": "incrementing",
        "topic.prefix": "shop.",
        "incrementing.column.name": "id",
        "snapshot.chunks": "auto",
    }
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        settings = parse_source_config(config, ConnectorFlavor.CONFLUENT)
        database = Database(settings.connection)
        discovery = TableDiscovery(settings, NoOffsets())
        with closing(database.session()) as session:
            found = list(discovery.discover(session))
        assert [(list(map(str, one.tables)), one.is_complete) for one in found] == [([], False), (["orders"], True)]
        connection.execute("CREATE TABLE items (id INTEGER PRIMARY KEY)")
        with closing(database.session()) as session:
            assert [(len(one.tables), one.is_complete) for one in discovery.discover(session)] == [(1, True), (2, True)]
        database.close()
    for is_complete in (False, True):
        (assignment,) = assign_tasks(DiscoveredTables((ORDERS,), is_complete=is_complete), 1)
        task = JdbcSourceTask()
        task.initialize(SimpleNamespace(offset_reader=NoOffsets()))
        task.start({**config, **assignment})
        for querier in task._queriers:
            querier.is_missing = True
        assert task.is_loaded() is is_complete
        task.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Orders", "orders"),
        ("PUBLIC.ORDERS", "public.orders"),
        ("shop.items", "public.items"),
        ("shop.public.items", "public.items"),
        ('"public"."items"', "public.items"),
        ("itmes", "items"),
        ("ORDRES", "orders"),
        ("quite_another", ""),
    ],
)
def test_nearest_table_is_suggested_for_an_unknown_name(text: str, expected: str) -> None:
    assert nearest_table(text, [ORDERS, ITEMS, OTHER]) == expected


def test_warning_for_a_missing_table_explains_why_it_was_not_found(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript("CREATE TABLE orders(id int); CREATE VIEW open_orders AS SELECT * FROM orders")
    config = {"connection.url": f"jdbc:sqlite:{tmp_path / 'shop.db'}", "mode": "bulk", "topic.prefix": "t-"}
    for change, words in (
        ({"table.whitelist": "ORDERS"}, "has ORDERS, which does not exist; did you mean orders?"),
        ({"table.whitelist": "open_orders"}, "does not exist: open_orders is a VIEW, but table.types only has TABLE"),
        ({"table.include.list": "public[.]orders"}, "the configuration selects no table of"),
    ):
        settings = parse_source_config({**config, **change}, ConnectorFlavor.CONFLUENT)
        database = Database(settings.connection)
        caplog.clear()
        try:
            session = database.session()
            assert list_tables(session, settings) == []
            session.close()
        finally:
            database.close()
        assert words in caplog.text
