"""How a task starts, by its position and the state of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from connectors.cdc.errors import PositionLostError
from connectors.postgres.config import parse_config
from connectors.postgres.offsets import ServerTimeline, StreamPosition
from connectors.postgres.startup import StartAction, StartPlan, TaskPosition, needs_snapshot, plan_start
from connectors.postgres.streaming.server import ServerState, parse_timeline_history
from connectors.postgres.streaming.slots import ReplicationSlot

BASE = {
    "topic.prefix": "p",
    "database.hostname": "h",
    "database.user": "u",
    "database.password": "s3cret",
    "database.dbname": "d",
}
FIRST, SECOND = ServerTimeline("7001", 1), ServerTimeline("7001", 2)
OTHER = ServerTimeline("7002", 1)
UNKNOWN: Mapping[int, int] = {}


def slot(confirmed_lsn: int = 100, wal_status: str = "reserved") -> ReplicationSlot:
    return ReplicationSlot("debezium", "pgoutput", "d", None, confirmed_lsn, wal_status)


def plan(
    position: StreamPosition | None,
    found: ReplicationSlot | None,
    *,
    origin: ServerTimeline | None = FIRST,
    server: ServerTimeline = FIRST,
    lsn: int = 1_000,
    ancestors: Mapping[int, int] = UNKNOWN,
    completed: bool = True,
    **keys: str,
) -> StartPlan:
    settings = parse_config({**BASE, **{name.replace("_", "."): value for name, value in keys.items()}})
    known = None if position is None else TaskPosition(position, origin)
    wants = needs_snapshot(settings.snapshot.mode, snapshot_completed=completed if known else None)
    return plan_start(settings, known, found, ServerState(server, lsn), ancestors, wants_snapshot=wants)


@pytest.mark.parametrize(
    ("mode", "position", "found", "completed", "action"),
    [
        ("initial", None, None, False, StartAction.SNAPSHOT),
        ("initial", None, slot(), False, StartAction.CATCH_UP),
        ("initial", StreamPosition(150), slot(), False, StartAction.CATCH_UP),
        ("initial", StreamPosition(150), None, False, StartAction.SNAPSHOT),
        ("initial", StreamPosition(150), slot(), True, StartAction.STREAM),
        ("always", StreamPosition(150), slot(), True, StartAction.CATCH_UP),
        ("no_data", None, None, False, StartAction.CREATE_SLOT),
        ("no_data", None, slot(), False, StartAction.STREAM),
        ("when_needed", StreamPosition(150), slot(), True, StartAction.STREAM),
        ("when_needed", StreamPosition(150), None, True, StartAction.SNAPSHOT),
        ("when_needed", StreamPosition(150), slot(wal_status="lost"), True, StartAction.SNAPSHOT),
        ("when_needed", StreamPosition(50), slot(), True, StartAction.CATCH_UP),
        ("when_needed", StreamPosition(2_000), slot(), True, StartAction.CATCH_UP),
    ],
)
def test_action_by_mode_and_state(
    mode: str, position: StreamPosition | None, found: ReplicationSlot | None, completed: bool, action: StartAction
) -> None:
    assert plan(position, found, completed=completed, snapshot_mode=mode).action is action


LOST: list[tuple[dict[str, Any], str]] = [
    ({"found": None}, "slot debezium does not exist"),
    ({"found": slot(wal_status="lost")}, "has lost required WAL"),
    ({"found": slot(200)}, "is at 0/C8, ahead of the stored offset at 0/96"),
    ({"found": slot(), "lsn": 120}, "is only at 0/78"),
    ({"found": slot(), "server": OTHER}, "system identifier 7001, but that of PostgreSQL at u@h:5432/d is 7002"),
    ({"found": slot(), "server": SECOND}, "did not branch off"),
    ({"found": slot(), "server": FIRST, "origin": SECOND}, "did not branch off"),
]


@pytest.mark.parametrize(("state", "message"), LOST)
def test_a_lost_position_is_refused_unless_a_snapshot_repairs_it(state: dict[str, Any], message: str) -> None:
    with pytest.raises(PositionLostError, match=message):
        plan(StreamPosition(150, 140, 3), **state)
    repaired = plan(StreamPosition(150, 140, 3), snapshot_mode="when_needed", **state)
    assert repaired.action in (StartAction.SNAPSHOT, StartAction.CATCH_UP)
    assert repaired.position is None
    assert message in (repaired.warning or "")


@pytest.mark.parametrize(
    ("strategy", "confirmed_lsn", "expected"),
    [
        ("trust_slot", 200, 200),
        ("trust_greater_lsn", 200, 200),
        ("trust_offset", 100, 150),
        ("trust_slot", 100, 150),
        ("trust_greater_lsn", 100, 150),
        ("no_validation", 200, 150),
    ],
)
def test_strategies_for_a_slot_that_is_not_at_the_offset(strategy: str, confirmed_lsn: int, expected: int) -> None:
    found = plan(StreamPosition(150), slot(confirmed_lsn), offset_mismatch_strategy=strategy)
    assert found.action is StartAction.STREAM
    assert found.position == StreamPosition(expected)
    assert bool(found.warning) == (expected == 200)


def test_offsets_without_a_server_are_checked_on_request_only() -> None:
    """Earlier releases and Debezium can confirm positions that they do not store."""
    accepted = plan(StreamPosition(150), slot(200), origin=None)
    assert accepted.position == StreamPosition(200)
    assert accepted.warning is not None
    with pytest.raises(PositionLostError, match="ahead of the stored offset"):
        plan(StreamPosition(150), slot(200), origin=None, offset_mismatch_strategy="trust_offset")


def test_a_new_timeline_is_followed_from_positions_before_it() -> None:
    assert plan(StreamPosition(150, 140, 3), slot(), server=SECOND, ancestors={1: 160}).position == StreamPosition(150, 140, 3)


def test_wal_without_captured_changes_after_the_switch_is_read_from_the_new_timeline() -> None:
    found = plan(StreamPosition(300, 140, 3), slot(), server=SECOND, ancestors={1: 160})
    assert found.position == StreamPosition(160, 140, 3)
    assert "left timeline 1 at 0/A0" in (found.warning or "")


@pytest.mark.parametrize(
    "position", [StreamPosition(300, 290, 3), StreamPosition(150, 290, 1), StreamPosition(300, 300)], ids=str
)
def test_changes_that_a_failover_lost_are_noticed(position: StreamPosition) -> None:
    with pytest.raises(PositionLostError, match=r"left timeline 1 at 0/A0 \(a failover\?\)"):
        plan(position, slot(), server=SECOND, ancestors={1: 160})


def test_a_slot_that_is_beyond_the_switch_is_not_followed_back() -> None:
    with pytest.raises(PositionLostError, match="left timeline 1"):
        plan(StreamPosition(300, 140, 3), slot(250), server=SECOND, ancestors={1: 160})


def test_timeline_history_is_parsed() -> None:
    text = "1\t0/16D8B30\tno recovery target specified\n\n2\t1/16D9F18\tno recovery target specified\n"
    assert parse_timeline_history(text) == {1: 0x16D8B30, 2: 0x1016D9F18}
