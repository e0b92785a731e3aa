"""Keys, offsets and the book of confirmations."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import BadRequestError, ConfigError
from connectors.postgres import PostgresSource
from connectors.postgres.config import parse_config
from connectors.postgres.connection import quote_identifier, quote_literal
from connectors.postgres.offsets import StreamPosition, format_lsn, parse_lsn, parse_offset, snapshot_offset
from connectors.postgres.schema.envelope import topic_name
from connectors.postgres.schema.filters import Filters
from connectors.postgres.streaming.flush_lsn import FlushTracker
from connectors.postgres.unsupported_keys import find_dynamic_key_errors

BASE = {
    "topic.prefix": "p",
    "database.hostname": "h",
    "database.user": "u",
    "database.password": "s3cret",
    "database.dbname": "d",
}


def test_the_password_is_never_printed() -> None:
    assert "s3cret" not in repr(parse_config(BASE))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("provide.transaction.metadata", "true"),
        ("signal.data.collection", "public.signals"),
        ("notification.enabled.channels", "sink"),
        ("time.precision.mode", "structured"),
        ("plugin.name", "wal2json"),
        ("snapshot.mode", "custom"),
        ("column.mask.with.10.chars", "public.t.c"),
        ("column.mask.hash.SHA-256.with.salt.x", "public.t.c"),
        ("incremental.snapshot.watermarking.strategy", "insert_delete"),
        ("table.include.list", "public.("),
        ("topic.prefix", "a b"),
        ("slot.name", "Upper"),
        ("skipped.operations", "x"),
    ],
)
def test_keys_that_would_change_the_result_are_rejected(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config({**BASE, key: value})
    assert key in str(raised.value)
    errors = {v.name: v.errors for v in PostgresSource().validate({**BASE, key: value}) if v.errors}
    assert list(errors) == [key]


def test_debeziums_defaults_and_ignored_keys_are_accepted() -> None:
    taken = {
        "plugin.name": "pgoutput", "max.queue.size": "20000", "snapshot.mode": "never", "signal.enabled.channels": "source",
        "provide.transaction.metadata": "false", "snapshot.fetch.size": "10240", "name": "x", "transforms": "unwrap",
    }  # fmt: skip
    settings = parse_config({**BASE, **taken})
    assert settings.snapshot.mode == "no_data"
    assert settings.slot.publication == "dbz_publication"
    assert settings.slot.name == "debezium"
    assert settings.skipped == {"t"}


def test_include_and_exclude_are_mutually_exclusive() -> None:
    (finding,) = find_dynamic_key_errors({**BASE, "table.include.list": "a", "table.exclude.list": "b"})
    assert finding.name == "table.exclude.list"


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


def test_topic_names_are_sanitized() -> None:
    assert topic_name("p", ".", "my schema", "ta$ble-ö") == "p.my_schema.ta_ble-_"


@given(st.text(max_size=30))
def test_quoted_text_cannot_end_the_quotes(name: str) -> None:
    inside = quote_identifier(name)[1:-1]
    assert '"' not in inside.replace('""', "")
    assert "'" not in quote_literal(name)[1:-1].replace("''", "")


@given(st.integers(0, 2**64 - 1))
def test_lsn_text_round_trips(lsn: int) -> None:
    assert parse_lsn(format_lsn(lsn)) == lsn


def test_offsets_of_debezium_releases() -> None:
    streaming = {
        "transaction_id": None,
        "lsn_proc": 90,
        "messageType": "UPDATE",
        "lsn_commit": 80,
        "lsn": 95,
        "txId": 777,
        "ts_usec": 1,
    }
    assert parse_offset(streaming).position == StreamPosition(80, xid=777, event_lsn=90)
    assert parse_offset({"lsn": 95, "snapshot": True, "last_snapshot_record": False}).snapshot_completed is False
    assert parse_offset({"lsn": 95, "snapshot": True, "last_snapshot_record": True}).snapshot_completed is True
    assert parse_offset({"lsn": 95, "snapshot": "INITIAL", "snapshot_completed": True}) == parse_offset(
        snapshot_offset(95, 1, 2, last=True)
    )
    assert parse_offset(
        {"lsn": 95, "lsn_proc": 95, "lsn_commit": 95, "messageType": "COMMIT", "txId": 7}
    ).position == StreamPosition(95)


def test_confirmed_lsn_follows_stored_offsets() -> None:
    book = FlushTracker(100)
    book.snapshot_emitted(100)
    book.transaction_completed(200, 3, 210)
    book.transaction_completed(300, 2, 310)
    book.position_passed(400)
    assert book.confirmed_lsn == 100
    assert not book.offset_stored({"tx_lsn": 200, "tx_events": 2})
    assert book.offset_stored({"tx_lsn": 200, "tx_events": 3})
    assert book.confirmed_lsn == 210
    assert book.offset_stored({"tx_lsn": 300, "tx_events": 2})
    assert book.confirmed_lsn == 400
    book.position_passed(500)
    assert book.confirmed_lsn == 500
    assert book.all_stored


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=20))
def test_confirmed_lsn_never_passes_an_unstored_record(transactions: list[tuple[int, bool]]) -> None:
    """Promise 1, for any order of transactions with and without captured changes, and of stored offsets."""
    book = FlushTracker(0)
    lsn, last, handed_out = 0, (0, 0), []
    for events, store in transactions:
        lsn += 10
        if events:
            last = (lsn, events)
            handed_out.append(last)
        book.transaction_completed(*last, lsn + 5)
        if store and handed_out:
            book.offset_stored({"tx_lsn": handed_out[0][0], "tx_events": handed_out[0][1]})
            handed_out.pop(0)
        if handed_out:
            assert book.confirmed_lsn <= handed_out[0][0]
        else:
            assert book.confirmed_lsn == lsn + 5


def test_alter_offsets_checks_partition_and_position() -> None:
    connector = PostgresSource()
    mine, other = (("server", "p"),), (("server", "q"),)
    assert connector.alter_offsets(BASE, {mine: {"lsn": 5}, other: None})
    wrong: list[dict[Any, Any]] = [{other: {"lsn": 5}}, {mine: {"lsn": "5"}}, {mine: {}}, {mine: {"lsn": 5, "tx_lsn": "x"}}]
    for offsets in wrong:
        with pytest.raises(BadRequestError):
            connector.alter_offsets(BASE, offsets)
