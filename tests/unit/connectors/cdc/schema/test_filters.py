"""Filters of captured tables and columns."""

from __future__ import annotations

from connectors.cdc.schema.filters import Filters
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


def test_message_key_columns() -> None:
    filters = Filters(parse_config({**BASE, "message.key.columns": "public.a:x,y;(.*).b:z"}).capture)
    assert filters.key_columns("public", "a") == ("x", "y")
    assert filters.key_columns("other", "b") == ("z",)
    assert filters.key_columns("public", "c") is None
