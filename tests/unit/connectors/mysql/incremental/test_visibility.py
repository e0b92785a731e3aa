"""Chunks are used only if their snapshot has everything that was streamed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from connectors.mysql.binlog import GtidSet
from connectors.mysql.incremental.visibility import SnapshotContents
from connectors.mysql.offsets import BinlogPosition
from connectors.mysql.streaming.observers import BinlogMark, BinlogObservers

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@dataclass
class At:
    """A position of the stream."""

    position: BinlogPosition
    file: str = "binlog.000002"
    event_position: int = 0
    gtid: str | None = None
    is_in_transaction: bool = False


def between(file: str, position: int, gtids: str | None = None) -> At:
    return At(BinlogPosition(file, position, gtids))


def inside(event_position: int, gtid: str | None = None) -> At:
    """In a transaction that begins at 100."""
    return At(BinlogPosition("binlog.000002", 100, events=2), event_position=event_position, gtid=gtid, is_in_transaction=True)


@pytest.mark.parametrize(
    ("stream", "contains"),
    [
        (between("binlog.000002", 500), True),
        (between("binlog.000002", 501), False),
        (between("binlog.000001", 900), True),
        (between("binlog.000010", 4), False),
        (inside(499), True),
        (inside(500), False),
        (between("mysql-bin.000001", 4), False),
    ],
)
def test_exact_snapshots_must_not_be_behind_the_stream(stream: At, contains: bool) -> None:
    assert SnapshotContents(BinlogPosition("binlog.000002", 500), None).contains(stream) is contains


@pytest.mark.parametrize(
    ("stream", "contains"),
    [
        (between("binlog.000002", 500, f"{UUID}:1-5"), True),
        (between("binlog.000002", 500, f"{UUID}:1-6"), False),
        (inside(200, f"{UUID}:5"), True),
        (inside(200, f"{UUID}:6"), False),
        (between("binlog.000002", 500), True),
    ],
)
def test_executed_transactions_must_have_those_of_the_stream(stream: At, contains: bool) -> None:
    assert SnapshotContents(None, GtidSet.parse(f"{UUID}:1-5")).contains(stream) is contains


def test_a_server_that_says_nothing_proves_nothing() -> None:
    assert not SnapshotContents(None, None).contains(between("binlog.000001", 4))


@pytest.mark.parametrize(
    ("position", "is_reached"),
    [
        (BinlogPosition("binlog.000002", 499), False),
        (BinlogPosition("binlog.000002", 500), True),
        (BinlogPosition("binlog.000003", 4), True),
        (BinlogPosition("binlog.000003", 4, events=1), False),
        (BinlogPosition("mysql-bin.000009", 4), False),
        (BinlogPosition("mysql-bin.000009", 4, "0-1-70"), True),
        (BinlogPosition("mysql-bin.000009", 4, "0-1-69"), False),
    ],
)
def test_a_mark_is_reached_by_position_or_by_gtids(position: BinlogPosition, is_reached: bool) -> None:
    observers = BinlogObservers()
    assert not observers.is_mark_reached(position)
    observers.mark = BinlogMark.at(BinlogPosition("binlog.000002", 500, "0-1-70"))
    assert observers.is_mark_reached(position) is is_reached
    observers.clear_mark()
    assert not observers.is_mark_reached(position)
