"""Checks of captured tables: record keys and topics."""

from __future__ import annotations

import pytest

from connect.errors import ConfigError
from connectors.cdc.schema.filters import Filters
from connectors.postgres.config import PostgresConfig, parse_config
from connectors.postgres.schema.catalog import CapturedTable
from connectors.postgres.schema.checks import check_keys, check_topics


def settings(**changes: str) -> PostgresConfig:
    config = {"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d"}
    return parse_config(config | {name.replace("_", "."): value for name, value in changes.items()})


def table(name: str = "t", key: tuple[str, ...] = ("id",), identity: str = "d", *, sends_key: bool = True) -> CapturedTable:
    return CapturedTable(1, "public", name, (), key, identity, "r", -1, sends_key)


def check(found: CapturedTable, **changes: str) -> None:
    config = settings(message_key_columns="public.t:code", **changes)
    check_keys([found], config, Filters(config.capture))


def test_message_keys_must_be_in_the_replica_identity() -> None:
    for identity in "di":
        with pytest.raises(ConfigError, match=r"column code of public\.t.* only id,") as raised:
            check(table(identity=identity))
        assert raised.value.key == "message.key.columns"
    check(table(key=("id", "code")))
    check(table(identity="f"))
    check(table(), skipped_operations="u,d")


def test_message_keys_of_tables_without_updates_and_deletes_are_free() -> None:
    check(table(identity="n", sends_key=False))
    check(table(key=(), sends_key=False))
    check(table(name="other"))


def test_two_tables_cannot_share_a_topic() -> None:
    check_topics([table("a"), table("b"), table("c_d")], settings())
    with pytest.raises(ConfigError, match=r'"public\.c d" and "public\.c_d" have the same topic p\.public\.c_d'):
        check_topics([table("c d"), table("c_d")], settings())
