"""Filters of captured tables and columns."""

from __future__ import annotations

from connectors.cdc.schema.filters import Filters
from connectors.mysql.config import parse_config as parse_mysql_config
from connectors.mysql.history_keys import PREFIX
from connectors.postgres.config import parse_config

BASE = {
    "topic.prefix": "p",
    "database.hostname": "h",
    "database.user": "u",
    "database.password": "s3cret",
    "database.dbname": "d",
}


def test_filters_are_anchored_and_in_any_case() -> None:
    filters = Filters(parse_config({**BASE, "table.include.list": "public\\.orders, Shop\\..*"}).capture)
    assert filters.captures_table("public", "orders")
    assert filters.captures_table("shop", "anything")
    assert not filters.captures_table("public", "orders_old")
    assert not filters.captures_table("xpublic", "orders")
    assert not Filters(parse_config(BASE).capture).captures_table("pg_catalog", "pg_class")


def test_only_the_databases_own_schemas_are_left_out() -> None:
    mysql = Filters(parse_mysql_config({**BASE, "database.server.id": "1", f"{PREFIX}kafka.topic": "history"}).capture)
    assert [mysql.captures_table(name, "t") for name in ("mysql", "SYS", "performance_schema", "information_schema")] == [
        False
    ] * 4
    assert [mysql.captures_table(name, "t") for name in ("pg_catalog", "pg_temp_1", "mysql2", "")] == [True] * 4
    postgres = Filters(parse_config(BASE).capture)
    assert [postgres.captures_table(name, "t") for name in ("mysql", "sys", "pg_temp_1")] == [True, True, False]


def test_message_key_columns() -> None:
    filters = Filters(parse_config({**BASE, "message.key.columns": "public.a:x,y;(.*).b:z"}).capture)
    assert filters.key_columns("public", "a") == ("x", "y")
    assert filters.key_columns("other", "b") == ("z",)
    assert filters.key_columns("public", "c") is None
