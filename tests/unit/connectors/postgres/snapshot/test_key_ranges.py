"""SQL of key ranges, and offsets of an incomplete snapshot."""

from __future__ import annotations

from connectors.cdc.snapshot.key_ranges import KeyRange
from connectors.postgres.offsets import SNAPSHOT_STATE, catch_up_members, confirmable_lsn, parse_offset, snapshot_offset
from connectors.postgres.snapshot.key_ranges import KeyColumn, key_order, range_condition

ID = KeyColumn("id", "bigint", 0)
NAME = KeyColumn('a"b', "text", 1)


def test_conditions_of_a_range() -> None:
    assert range_condition([ID], KeyRange()) == []
    assert range_condition([ID], KeyRange(("5",), ("9",))) == [
        "(\"id\") > (CAST('5' AS bigint))",
        "(\"id\") <= (CAST('9' AS bigint))",
    ]
    assert range_condition([ID, NAME], KeyRange(("5", "it's \\ x"), None)) == [
        "(\"id\", \"a\"\"b\") > (CAST('5' AS bigint), CAST(E'it''s \\\\ x' AS text))"
    ]
    assert key_order([ID, NAME]) == '"id", "a""b"'


def test_offsets_with_a_state_are_those_of_an_incomplete_snapshot() -> None:
    """Debezium and earlier releases read the other fields, and start over."""
    offset = snapshot_offset(95, 1, 2, last=False, state="{}")
    assert {name: value for name, value in offset.items() if name != SNAPSHOT_STATE} == snapshot_offset(95, 1, 2, last=False)
    stored = parse_offset(offset)
    assert (stored.snapshot_completed, stored.snapshot_state, stored.position.done_lsn) == (False, "{}", 95)
    assert confirmable_lsn(offset) == 0
    streamed = {"lsn": 99, "lsn_commit": 97, "tx_lsn": 98, "tx_events": 1, "txId": 5}
    stored = parse_offset(streamed | catch_up_members("{}"))
    assert (stored.snapshot_completed, stored.snapshot_state, stored.position.done_lsn) == (False, "{}", 97)
    assert SNAPSHOT_STATE not in catch_up_members(None)
    assert parse_offset({**snapshot_offset(95, 1, 2, last=True), SNAPSHOT_STATE: "{}"}).snapshot_state is None
