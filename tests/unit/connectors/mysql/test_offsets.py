from __future__ import annotations

from typing import Any

import pytest

from connect.errors import DataError
from connectors.mysql.binlog import MariaDbGtidPosition
from connectors.mysql.offsets import (
    BinlogPosition,
    is_at_or_before,
    is_place_at_or_before,
    is_statement_at,
    parse_gtids,
    parse_offset,
    snapshot_offset,
    stream_offset,
    with_server,
)

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OTHER = UUID.replace("3", "4")


def test_an_offset_of_debezium_is_read() -> None:
    stored = parse_offset(
        {"transaction_id": None, "ts_sec": 1700000000, "file": "mysql-bin.000003", "pos": 805, "gtids": f"{UUID}:1-15", "row": 1,
         "server_id": 223344, "event": 2}
    )  # fmt: skip
    assert stored.position == BinlogPosition("mysql-bin.000003", 805, f"{UUID}:1-15", 2, 1)
    assert (stored.snapshot_completed, stored.server_id, stored.server_uuid, stored.ts_sec) == (True, 223344, None, 1700000000)
    assert stored.transaction == {"transaction_id": None}


@pytest.mark.parametrize(
    ("members", "completed"),
    [
        ({}, True),
        ({"snapshot": True}, False),
        ({"snapshot": "INITIAL"}, False),
        ({"snapshot": "INITIAL", "snapshot_completed": True}, True),
        ({"snapshot": "BLOCKING", "snapshot_completed": False}, False),
    ],
)
def test_snapshots_are_completed_as_in_debezium(members: dict[str, Any], completed: bool) -> None:
    assert parse_offset({"file": "b.1", "pos": 4, **members}).snapshot_completed is completed


def test_written_offsets_are_read_back() -> None:
    position = BinlogPosition("b.000001", 120, "0-1-5,1-2-7", 3, 2, "0-1-6")
    stored = parse_offset(with_server(stream_offset(position, 7, 99, {"transaction_id": "0-1-6"}), "uuid"))
    assert (stored.position, stored.server_id, stored.ts_sec, stored.server_uuid) == (position, 7, 99, "uuid")
    assert stored.transaction == {"transaction_id": "0-1-6"}
    snapshot = parse_offset(snapshot_offset(BinlogPosition("b.000001", 120), 5, last=False, state="half"))
    assert (snapshot.snapshot_completed, snapshot.snapshot_state) == (False, "half")
    assert parse_offset(snapshot_offset(BinlogPosition("b.000001", 120), 5, last=True, state="half")).snapshot_completed


def test_debezium_stores_a_gtid_per_server_of_a_domain() -> None:
    assert parse_gtids("0-1-100,0-2-105,1-1-3") == MariaDbGtidPosition.parse("0-2-105,1-1-3")
    assert parse_gtids("") is None
    with pytest.raises(DataError, match="GTID set"):
        parse_gtids("nothing")


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        ({}, "has no 'file'.*delete the connector's offsets"),
        ({"lsn": 5}, "has no 'file'"),
        ({"file": "b.1", "pos": "x"}, "pos='x'; expected an integer"),
    ],
)
def test_an_offset_without_a_position_is_rejected(offset: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_offset(offset)


@pytest.mark.parametrize(
    ("recorded", "desired", "expected"),
    [
        ({"gtids": f"{UUID}:1-5"}, {"gtids": f"{UUID}:1-5"}, True),
        ({"gtids": f"{UUID}:1-5"}, {"gtids": f"{UUID}:1-6"}, True),
        ({"gtids": f"{UUID}:1-5,{OTHER}:1-2"}, {"gtids": f"{UUID}:1-9"}, False),
        ({"gtids": f"{UUID}:1-7"}, {"gtids": f"{UUID}:1-6"}, False),
        ({"gtids": f"{UUID}:1-5", "event": 2}, {"gtids": f"{UUID}:1-5", "event": 1}, False),
        ({"gtids": f"{UUID}:1-5", "event": 1}, {"gtids": f"{UUID}:1-5", "event": 1}, True),
        ({"gtids": f"{UUID}:1-5"}, {"gtids": f"{UUID}:1-5", "snapshot": True}, False),
        ({"gtids": f"{UUID}:1-5", "snapshot": True}, {"gtids": f"{UUID}:1-5"}, True),
        ({"file": "b.1", "pos": 9}, {"gtids": f"{UUID}:1-5"}, True),
        ({"gtids": f"{UUID}:1-5"}, {"file": "b.9", "pos": 9}, False),
        ({"gtids": "0-1-5"}, {"gtids": "0-1-5"}, True),
        ({"gtids": "0-1-5"}, {"gtids": "0-2-6"}, True),  # a domain has one order, whichever server wrote
        ({"gtids": "0-1-5,1-1-1"}, {"gtids": "0-1-9"}, False),
        ({"gtids": "0-1-5"}, {"gtids": "0-1-9,1-1-1"}, True),
        ({"gtids": "0-1-7"}, {"gtids": "0-2-6"}, False),
        ({"file": "b.000009", "pos": 900}, {"file": "b.000010", "pos": 4}, True),
        ({"file": "b.999999", "pos": 4}, {"file": "b.1000000", "pos": 4}, True),
        ({"file": "b.000010", "pos": 4}, {"file": "b.000009", "pos": 9}, False),
        ({"file": "b.000010", "pos": 4}, {"file": "b.000010", "pos": 4}, True),
        ({"file": "b.000010", "pos": 5}, {"file": "b.000010", "pos": 4}, False),
        ({"file": "b.000010", "pos": 4, "event": 2}, {"file": "b.000010", "pos": 4, "event": 1}, False),
        ({"file": "b.000010", "pos": 4, "event": 1, "row": 2}, {"file": "b.000010", "pos": 4, "event": 1, "row": 1}, False),
        ({"file": "b.1", "pos": 9, "server_id": 1, "ts_sec": 5}, {"file": "b.1", "pos": 4, "server_id": 2, "ts_sec": 6}, True),
        ({"file": "b.1", "pos": 4, "server_id": 1, "ts_sec": 7}, {"file": "b.1", "pos": 9, "server_id": 2, "ts_sec": 6}, False),
        ({"file": "old.000009", "pos": 4}, {"file": "new.000001", "pos": 4}, True),
        ({"file": "b.1", "pos": 4, "snapshot": True}, {"file": "b.1", "pos": 4, "server_id": 2}, True),
    ],
)
def test_positions_have_debeziums_order(recorded: dict[str, Any], desired: dict[str, Any], expected: bool) -> None:
    assert is_at_or_before(recorded, desired) is expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("b.000010", 4), ("b.000010", 4), True),
        (("b.000010", 5), ("b.000010", 4), False),
        (("b.000009", 900), ("b.000010", 4), True),
        (("b.1000000", 4), ("b.999999", 900), False),
        (("old.000009", 4), ("new.000010", 4), False),
        (("b.000009", 4), ("b", 900), False),
    ],
)
def test_places_are_compared_only_in_files_of_one_server(one: tuple[str, int], other: tuple[str, int], expected: bool) -> None:
    assert is_place_at_or_before(BinlogPosition(*one), BinlogPosition(*other)) is expected


def test_sources_that_are_not_read_do_not_count_where_they_are_missing() -> None:
    recorded, desired = {"gtids": f"{UUID}:1-5,{OTHER}:1-9"}, {"gtids": f"{UUID}:1-5,{OTHER}:1-2"}
    assert not is_at_or_before(recorded, desired)
    assert not is_at_or_before(recorded, desired, lambda source: source == UUID)
    assert is_at_or_before(recorded, {"gtids": f"{UUID}:1-5"}, lambda source: source == UUID)
    assert is_at_or_before({"gtids": "0-1-5,1-2-9"}, {"gtids": "0-1-5"}, lambda source: source == "0-1")
    assert not is_at_or_before({"gtids": "0-1-5,1-2-9"}, {"gtids": "0-1-5,1-2-8"}, lambda source: source == "0-1")


@pytest.mark.parametrize("wrong", [{"file": "binlog", "pos": 4}, {"pos": 4}, {"file": "b.1", "pos": "x"}, {"file": 7, "pos": 4}])
def test_positions_that_cannot_be_read_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"the position .* has (file|pos)="):
        is_at_or_before(wrong, {"file": "b.1", "pos": 4})


@pytest.mark.parametrize(
    ("mark", "completed"), [("INITIAL", False), (True, False), ("BLOCKING", False), ("INCREMENTAL", True), (False, True)]
)
def test_debeziums_rows_of_an_incremental_snapshot_are_in_the_stream(mark: str | bool, completed: bool) -> None:
    assert parse_offset({"file": "bin.000001", "pos": 4, "snapshot": mark}).snapshot_completed is completed


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ({"pos": 300}, True),
        ({"pos": 100, "event": 1}, True),
        ({"pos": 100}, False),
        ({"pos": 200}, False),
        ({"pos": 300, "file": "bin.000002"}, False),
        ({"pos": 300, "server_id": 7}, True),
        ({"pos": 300, "server_id": 8}, False),
    ],
)
def test_statement_of_a_record_of_debeziums_history_is_found_by_its_place(recorded: dict[str, Any], expected: bool) -> None:
    before, after = BinlogPosition("bin.000001", 100, events=1), BinlogPosition("bin.000001", 300)
    assert is_statement_at({"file": "bin.000001", **recorded}, before, after, 7) is expected
