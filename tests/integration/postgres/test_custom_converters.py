"""Custom converters with a real PostgreSQL: snapshots and the stream have the same schemas, values, and keys."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connect.record import SourceRecord
from tests.support.cases import first_fast
from tests.support.custom_converters import check_rejected_prices

_CONVERTERS = {
    "converters": "cents,sizes",
    "cents_type": "tests.support.custom_converters:Cents",
    "sizes_type": "tests.support.custom_converters:Sizes",
}
EXPECTED: dict[int, dict[str, Any]] = {
    1: {"id": 1, "price": 225, "note": {"text": "a\u20ac", "size": 4}, "body": "x"},
    2: {"id": 2, "price": 150, "note": None, "body": None},
    3: {"id": 3, "price": -5, "note": {"text": "tab\t", "size": 4}, "body": "x"},
}
_INSERT = "insert into t values (1, 2.25, 'a\u20ac', 'x'), (2, 1.5, null, null), (3, -0.05, E'tab\\t', 'x')"


def after(records: list[SourceRecord]) -> dict[int, dict[str, Any]]:
    """The rows of table t by their id."""
    found = (r.value["after"] for r in records if r.topic == "shop.public.t" and r.value is not None)
    return {one["id"]: one.as_dict() for one in found if one is not None}


@pytest.mark.parametrize("identity", first_fast(["default", "full"]))
def test_snapshot_stream_and_incremental_snapshot_are_converted_alike(source: Any, identity: str) -> None:
    with source.sql() as db:
        db.execute("create table signals (id text, type text, data text)")
        db.execute(
            "create table t (id int, price numeric(9, 2) default 1.50 not null, note text, body text, primary key (id, price))"
        )
        db.execute(f"alter table t replica identity {identity}")
        db.execute(_INSERT)
        source.start(signal_data_collection="public.signals", incremental_snapshot_chunk_size="2", **_CONVERTERS)
        snapshot = source.read(3)
        source.until("streaming")
        assert after(snapshot) == EXPECTED
        db.execute("delete from t")
        db.execute(_INSERT)
        streamed = [record for record in source.read(9) if record.value is not None]
        assert after(streamed) == EXPECTED
        assert [record.value["before"]["price"] for record in streamed[:3]] == [225, 150, -5]
        assert [record.key.as_dict() for record in streamed[3:]] == [
            {"id": n, "price": row["price"]} for n, row in EXPECTED.items()
        ]
        data = json.dumps({"data-collections": ["public.t"]})
        db.execute("insert into signals values ('1', 'execute-snapshot', %s)", [data])
        again = source.poll_until(lambda found: len(after(found)) >= 3, "the rows")
        assert after(again) == EXPECTED
    everything = [*snapshot, *streamed, *(record for record in again if record.topic == "shop.public.t")]
    assert len({(record.key_schema, record.value_schema) for record in everything}) == 1
    for record in everything:
        record.value.validate()
        record.key.validate()
    fields = {field.name: field.schema for field in snapshot[0].value_schema.field("after").schema.fields}
    assert (fields["price"].type.name, fields["price"].default) == ("INT64", 150)
    assert (fields["note"].name, fields["note"].optional) == ("shop.Text", True)


def test_unavailable_values_are_those_of_the_old_row_or_placeholders_of_the_same_type(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t (id int primary key, price int, note text, body text)")
        db.execute("alter table t alter note set storage external, alter body set storage external, replica identity full")
        source.start(snapshot_mode="no_data", **_CONVERTERS)
        source.until("streaming")
        db.execute("insert into t values (1, 1, repeat('n', 9000), repeat('b', 9000))")
        db.execute("update t set price = 2")
        inserted, updated = source.read(2)
        assert updated.value["after"].as_dict() == {**inserted.value["after"].as_dict(), "price": 200}
        assert updated.value["after"]["note"]["size"] == 9000


@pytest.mark.parametrize("mode", first_fast([None, "warn"]))
def test_values_that_a_converter_rejects_are_errors_of_their_row(source: Any, mode: str | None) -> None:
    with source.sql() as db:
        db.execute("create table t (id int primary key, price numeric(12, 2))")
        db.execute("insert into t values (1, 1), (2, 2000000), (3, 3)")
        source.start(**_CONVERTERS, **({} if mode is None else {"event_converting_failure_handling_mode": mode}))
        snapshot = source.read(3)
        source.until("streaming")
        db.execute("insert into t values (4, 1), (5, 2000000), (6, 3)")
        found = [*snapshot, *source.read(3)]
    check_rejected_prices(found, "public.t", mode)
