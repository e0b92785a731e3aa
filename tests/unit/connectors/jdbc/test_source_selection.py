"""Which tables are read, by which task, into which topic, with which key."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import ConfigError, ConnectError
from connectors.jdbc.catalog import JdbcColumn, JdbcTable
from connectors.jdbc.database import Database
from connectors.jdbc.flavor import ConnectorFlavor
from connectors.jdbc.source.chunk_plans import Plan, Progress, stored_plan
from connectors.jdbc.source.config import parse_settings
from connectors.jdbc.source.config_validators import pattern
from connectors.jdbc.source.record_keys import KeyMaker, KeyRules, parse_key_columns
from connectors.jdbc.source.table_discovery import Survey, deal, list_tables, parse_share
from connectors.jdbc.source.table_selection import (
    column_for,
    grouped,
    names_text,
    nearest_table,
    parse_names,
    require_topics_apart,
    topic_of,
)
from connectors.jdbc.table_name import TableName

ORDERS, ITEMS, OTHER = TableName("orders", "public"), TableName("items", "public"), TableName("orders", "other")


@pytest.mark.parametrize(
    ("items", "groups", "expected"),
    [(5, 2, [3, 2]), (7, 3, [3, 2, 2]), (2, 2, [1, 1]), (3, 1, [3]), (0, 0, [])],
)
def test_tables_are_dealt_in_even_groups_of_neighbours(items: int, groups: int, expected: list[int]) -> None:
    found = grouped(list(range(items)), groups)
    assert [len(group) for group in found] == expected
    assert [item for group in found for item in group] == list(range(items))


@pytest.mark.parametrize(
    "table", [TableName("t"), TableName("t", "s", "c"), TableName('a"b,c', "x.y"), TableName("`[]", "naïve schema")]
)
def test_names_go_through_a_task_configuration(table: TableName) -> None:
    assert parse_names(names_text([table, ORDERS])) == [table, ORDERS]
    assert parse_names("") == []


def test_topics_are_prefix_and_bare_name_unless_asked_otherwise() -> None:
    assert topic_of(ORDERS, "pg-", "${table}") == "pg-orders"
    assert topic_of(TableName("orders", "public", "shop"), "", "${catalog}.${schema}.${table}") == "shop.public.orders"


def test_tables_that_would_share_a_topic_are_both_named_with_the_way_out() -> None:
    topics = {table: topic_of(table, "p-", "${table}") for table in (ORDERS, ITEMS, OTHER)}
    with pytest.raises(ConnectError) as caught:
        require_topics_apart([ORDERS, ITEMS, OTHER], topics)
    assert "public.orders and other.orders" in caught.value.message
    assert "topic.name.format=${schema}.${table}" in caught.value.message


def test_a_mapping_must_match_a_table_exactly_once() -> None:
    mapping = ((pattern("k", r"public\..*"), ("a",)), (pattern("k", r".*\.orders"), ("b", "c")))
    assert column_for(mapping, ITEMS, "k") == ("a",)
    assert column_for(mapping, OTHER, "k") == ("b", "c")
    with pytest.raises(ConfigError, match=r"exactly one .* but those of a and b\|c do"):
        column_for(mapping, ORDERS, "k")
    with pytest.raises(ConfigError, match="none of its expressions does"):
        column_for(mapping, TableName("x", "y"), "k")


VALUE = Schema(Type.STRUCT, name="orders", fields=[("id", Schema.INT64), ("Shop", Schema.STRING), ("n", Schema.OPTIONAL_INT32)])
TABLE = JdbcTable(ORDERS, tuple(JdbcColumn(name, "int") for name in ("id", "Shop", "n")), primary_key=("id",))


def test_keys_are_none_or_the_primary_key_or_named_columns() -> None:
    assert KeyRules().columns_of(ORDERS, TABLE) == ()
    assert parse_key_columns("auto", primitive=False).columns_of(ORDERS, TABLE) == ("id",)
    assert parse_key_columns("a, b", primitive=False).columns_of(None, None) == ("a", "b")
    by_table = parse_key_columns("public.orders:id,shop;items:x", primitive=False)
    assert by_table.columns_of(ORDERS, TABLE) == ("id", "shop")
    assert by_table.columns_of(ITEMS, None) == ("x",)
    assert by_table.columns_of(OTHER, None) == ()


def test_a_key_is_a_struct_or_the_bare_value() -> None:
    rows = [[1, "a", None], [2, "b", 5]]
    maker = KeyMaker.of(("id", "shop"), VALUE, "orders.Key", primitive=False)
    assert maker.schema.name == "orders.Key"
    assert maker.keys(rows) == [Struct(maker.schema, [1, "a"]), Struct(maker.schema, [2, "b"])]
    bare = KeyMaker.of(("id",), VALUE, None, primitive=True)
    assert (bare.schema, bare.keys(rows)) == (Schema.INT64, [1, 2])


def test_wrong_key_columns_are_named() -> None:
    with pytest.raises(ConnectError, match=r"key\.columns names idd, but the rows of orders have id, Shop, n"):
        KeyMaker.of(("idd",), VALUE, None, primitive=False)
    with pytest.raises(ConfigError, match="needs one key column"):
        parse_key_columns("id,n", primitive=True).columns_of(ORDERS, TABLE)
    with pytest.raises(ConfigError, match="name is empty"):
        parse_key_columns("id,,n", primitive=False)


PLAN = Plan("id", (10, 20, 30), 40, number=41)


def test_chunks_are_ranges_that_meet() -> None:
    assert [PLAN.limits(chunk) for chunk in range(PLAN.chunks)] == [(None, 10), (10, 20), (20, 30), (30, None)]
    assert Plan.load(PLAN.text) == PLAN
    texts = Plan("k", ("a", "ü'\"", "z"), 9, time_ns=5)
    assert Plan.load(texts.text) == texts


def test_progress_of_another_plan_is_no_progress() -> None:
    offset = {"plan": PLAN.text, "at": 15}
    assert Progress.load(offset, PLAN) == Progress(15)
    assert Progress.load({**offset, "done": True}, PLAN) == Progress(15, done=True)
    assert Progress.load(offset, Plan("id", (11, 20, 30), 40, number=41)) == Progress()


def test_a_plan_is_found_again_in_the_offset_of_any_chunk() -> None:
    done = {"plan": PLAN.text, "at": 20, "done": True}
    assert stored_plan([None, None, done], unfinished=False) == PLAN
    assert stored_plan([None] * 256, unfinished=False) is None
    assert stored_plan([done] * 4, unfinished=True) is None
    assert stored_plan([done] * 3, unfinished=True) == PLAN


def test_tables_and_chunks_are_dealt_to_all_tasks() -> None:
    survey = Survey((ORDERS, ITEMS), {ORDERS: PLAN})
    shares = [parse_share(config) for config in deal(survey, 3)]
    assert [tables for tables, _ in shares] == [[ORDERS], [ITEMS], []]
    assert [[share.chunks for share in found] for _, found in shares] == [[(0, 3)], [(1,)], [(2,)]]
    assert all(share.plan == PLAN and share.table == ORDERS for _, found in shares for share in found)


def test_the_task_that_goes_on_after_the_chunks_knows_the_plan_without_having_any() -> None:
    small = Plan("id", (10,), 20, number=21)
    configs = deal(Survey((ITEMS, OTHER, ORDERS), {ORDERS: small}), 5)
    tables, shares = parse_share(configs[2])
    assert tables == [ORDERS]
    assert [(share.table, share.chunks) for share in shares] == [(ORDERS, ())]


def test_without_chunks_there_are_as_many_tasks_as_tables_at_most() -> None:
    assert [config["tables"] for config in deal(Survey((ORDERS, ITEMS)), 5)] == ['"public"."orders"', '"public"."items"']
    assert [config["tables"] for config in deal(Survey((ORDERS, ITEMS)), 1)] == ['"public"."orders","public"."items"']
    assert deal(Survey(()), 3) == []


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
def test_a_name_that_no_table_has_is_told_with_the_one_that_was_perhaps_meant(text: str, expected: str) -> None:
    assert nearest_table(text, [ORDERS, ITEMS, OTHER]) == expected


def test_tables_that_are_not_found_are_told_with_what_is_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript("CREATE TABLE orders(id int); CREATE VIEW open_orders AS SELECT * FROM orders")
    config = {"connection.url": f"jdbc:sqlite:{tmp_path / 'shop.db'}", "mode": "bulk", "topic.prefix": "t-"}
    for change, words in (
        ({"table.whitelist": "ORDERS"}, "names ORDERS, which is not there; did you mean orders?"),
        ({"table.whitelist": "open_orders"}, "not there: open_orders is a VIEW, and table.types has TABLE only"),
        ({"table.include.list": "public[.]orders"}, "has no table that the configuration chooses"),
    ):
        settings = parse_settings({**config, **change}, ConnectorFlavor.CONFLUENT)
        database = Database(settings.connection)
        caplog.clear()
        try:
            session = database.session()
            assert list_tables(session, settings) == []
            session.close()
        finally:
            database.close()
        assert words in caplog.text
