"""The state of incremental snapshots in offsets."""

from __future__ import annotations

import json

import pytest

from connectors.cdc.incremental.context import DataCollection, IncrementalContext, TableScan
from connectors.postgres.incremental.positions import JAVA_KEYS, after, up_to

_INTEGER = (
    "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c020000787000000001737200116a6176612e6c616e672e496e7465"
    "67657212e2a0a4f781873802000149000576616c7565787200106a6176612e6c616e672e4e756d62657286ac951d0b94e08b0200007870"
)


def test_an_offset_of_debezium_is_continued() -> None:
    collections = [
        {
            "incremental_snapshot_collections_id": "public.t",
            "incremental_snapshot_collections_additional_condition": "(id > 5)",
            "incremental_snapshot_collections_surrogate_key": None,
            "incremental_snapshot_collections_correlation_id": "s1",
        },
        {"incremental_snapshot_collections_id": "public.u", "incremental_snapshot_collections_additional_condition": None},
    ]
    context = IncrementalContext(
        JAVA_KEYS,
        {
            "lsn": 1,
            "incremental_snapshot_primary_key": f"{_INTEGER}00000007",
            "incremental_snapshot_maximum_key": f"{_INTEGER}00000064",
            "incremental_snapshot_collections": json.dumps(collections),
            "incremental_snapshot_correlation_id": "s1",
        },
    )
    assert context.collections == [DataCollection("public", "t", "id > 5", "", "s1"), DataCollection("public", "u")]
    assert context.scan == TableScan(end=("7",), maximum=("100",))
    assert context.signal_id == "s1"


def test_offsets_are_those_of_debezium_and_are_read_back() -> None:
    context = IncrementalContext(JAVA_KEYS)
    assert context.offset() == {}
    context.add([DataCollection("public", "t", "id > 5", "", "s1"), DataCollection("My.Schema", 'a"b')], "s1")
    context.start_scan(TableScan(("id",), ("int4",), None, ("100",), ("o",)))
    context.complete_chunk(("7",))
    offset = context.offset()
    assert offset["incremental_snapshot_primary_key"] == f"{_INTEGER}00000007"
    assert offset["incremental_snapshot_maximum_key"] == f"{_INTEGER}00000064"
    assert offset["incremental_snapshot_collections"] == (
        '[{"incremental_snapshot_collections_id":"public.t",'
        '"incremental_snapshot_collections_additional_condition":"(id > 5)",'
        '"incremental_snapshot_collections_surrogate_key":null,'
        '"incremental_snapshot_collections_correlation_id":"s1"},'
        '{"incremental_snapshot_collections_id":"\\"My.Schema\\".\\"a\\"\\"b\\"",'
        '"incremental_snapshot_collections_additional_condition":null,'
        '"incremental_snapshot_collections_surrogate_key":null,'
        '"incremental_snapshot_collections_correlation_id":null}]'
    )
    context.pause()
    again = IncrementalContext(JAVA_KEYS, context.offset())
    assert (again.collections, again.scan, again.signal_id, again.is_paused) == (context.collections, context.scan, "s1", True)
    again.complete_table()
    assert again.scan == TableScan()
    again.complete_table()
    assert again.offset() == {}
    assert not again.is_paused


def test_keys_without_a_java_value_are_left_out_for_debezium() -> None:
    context = IncrementalContext(JAVA_KEYS)
    context.add([DataCollection("public", "t")], None)
    context.start_scan(TableScan(("a",), ("interval",), ("P1D",), ("P2D",)))
    assert "incremental_snapshot_primary_key" not in context.offset()
    assert IncrementalContext(JAVA_KEYS, context.offset()).scan.end == ("P1D",)


@pytest.mark.parametrize(
    ("position", "types"),
    [
        (("1", "-2"), ("int2", "int8")),
        (("1.50", "t"), ("numeric", "bool")),
        (("\\x00ff", "it's"), ("bytea", "text")),
        ((None, "123e4567-e89b-12d3-a456-426614174000"), ("int4", "uuid")),
        (None, ()),
    ],
)
def test_positions_are_read_back_from_java_values(position: tuple[str | None, ...] | None, types: tuple[str, ...]) -> None:
    assert JAVA_KEYS.parse(JAVA_KEYS.write(position, types)) == position


def test_conditions_for_positions() -> None:
    assert after({"id": False}, ("5",)) == "\"id\" > '5'"
    assert after({"a": False, "b": False}, ("it's", "\\")) == "(\"a\", \"b\") > ('it''s', E'\\\\')"
    assert up_to({"a": False, "b": False}, ("1", "2")) == "(\"a\", \"b\") <= ('1', '2')"
    assert after({"a": True}, (None,)) == "false"
    assert after({"a": False, "b": True}, ("1", "2")) == ('((("a" > \'1\')) OR ("a" = \'1\' AND ("b" > \'2\' OR "b" IS NULL)))')
    assert up_to({"a": True}, (None,)) == "NOT false"
