"""The transaction of a record, and END events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connectors.spark.transactions.events import (
    MESSAGES,
    ReadEvent,
    TransactionEnd,
    TransactionEvent,
    ValueParser,
    WithoutTransaction,
    read_end,
    read_event,
)

SOURCE = {"db": "shop", "schema": "public", "table": "t", "snapshot": "false"}


def event(**changes: Any) -> dict[str, Any]:
    block = {"id": "571:53195832", "total_order": 3, "data_collection_order": 2}
    return {"op": "u", "source": SOURCE, "transaction": block, **changes}


def test_events_of_one_postgresql_transaction_share_a_key_though_their_identifiers_differ() -> None:
    assert read_event(event()) == TransactionEvent("571", 3, ("shop.public.t", "public.t", "t", "shop.t"))
    assert read_end({"status": "END", "id": "571:53195900", "data_collections": None}, 7, 0) == TransactionEnd(
        "571", "571:53195900", 7, {}, 53195900
    )


def test_identifiers_of_mysql_are_keys() -> None:
    found = read_event(event(transaction={"id": "file=binlog.3,pos=154", "total_order": 1}, source={"db": "shop", "table": "t"}))
    assert found == TransactionEvent("file=binlog.3,pos=154", 1, ("shop.t", "t"))


def test_an_end_event_counts_collections() -> None:
    collections = [{"data_collection": "public.t", "event_count": 2}, {"data_collection": "public.u", "event_count": 1}]
    found = read_end({"status": "END", "id": "5:9", "data_collections": collections, "ts_ms": 12}, 3, 40)
    assert found == TransactionEnd("5", "5:9", 3, {"public.t": 2, "public.u": 1}, 9, 12, 40)
    assert read_end({"status": "BEGIN", "id": "5:9"}, 2, 40) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (event(op="r", transaction=None), ReadEvent(("shop.public.t", "public.t", "t", "shop.t"))),
        (
            event(op="r", transaction=None, source={**SOURCE, "snapshot": "incremental"}),
            ReadEvent(("shop.public.t", "public.t", "t", "shop.t"), is_initial=False),
        ),
        (event(op="m", transaction=None), None),
        (event(op="m"), TransactionEvent("571", 3, (MESSAGES,))),
    ],
)
def test_records_outside_of_transactions(value: Any, expected: Any) -> None:
    assert read_event(value) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [(event(transaction=None), "has no transaction block"), ({"id": 1}, "is no change event"), (5, "is no ch")],
)
def test_records_that_should_have_a_transaction(value: Any, message: str) -> None:
    with pytest.raises(WithoutTransaction, match=message):
        read_event(value)


def test_structs_are_read_like_json() -> None:
    block = SchemaBuilder.struct().field("id", Schema.STRING).field("total_order", Schema.INT64).build()
    source = SchemaBuilder.struct().field("db", Schema.STRING).field("table", Schema.STRING).build()
    schema = SchemaBuilder.struct().field("op", Schema.STRING).field("source", source).field("transaction", block).build()
    value = Struct(schema, ["c", Struct(source, ["shop", "t"]), Struct(block, ["gtid:5", 1])])
    assert read_event(value) == TransactionEvent("gtid:5", 1, ("shop.t", "t"))


def test_payloads_are_found_behind_any_schema() -> None:
    parser = ValueParser()
    schemas = [{"type": "struct", "doc": ',"payload":'}, {"type": "string"}]
    for number in range(6):
        payload = {"n": number, "text": ',"payload":{}'}
        text = json.dumps({"schema": schemas[number % 2], "payload": payload}, separators=(",", ":"))
        assert parser.parse(text.encode()) == payload
        assert parser.parse(json.dumps({"schema": None, "payload": payload}).encode()) == payload
    assert parser.parse(b'{"a": 1}') == {"a": 1}
    assert parser.parse(b"not json") is None
