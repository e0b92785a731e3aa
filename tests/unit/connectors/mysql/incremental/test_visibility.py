"""Chunks are used only if their snapshot has everything that was streamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from connectors.cdc.incremental.chunks import ChunkDelayed, TableSkipped
from connectors.mysql.binlog import GtidSet
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.incremental.visibility import SnapshotContents, check_visibility, start_transaction
from connectors.mysql.offsets import BinlogPosition
from connectors.mysql.server import ServerInfo
from connectors.mysql.streaming.observers import BinlogMark

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@dataclass
class At:
    """A position of the stream."""

    position: BinlogPosition
    file: str = "binlog.000002"
    event_position: int = 0
    gtid: str | None = None
    is_in_transaction: bool = False
    is_placed: bool = True

    @property
    def reached(self) -> BinlogPosition | None:
        return None if self.is_in_transaction or not self.is_placed else self.position


def between(file: str, position: int, gtids: str | None = None) -> At:
    return At(BinlogPosition(file, position, gtids))


def inside(event_position: int, gtid: str | None = None) -> At:
    """In a transaction that begins at 100."""
    begin = BinlogPosition("binlog.000002", 100, f"{UUID}:1-4", events=2)
    return At(begin, event_position=event_position, gtid=gtid, is_in_transaction=True)


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
        (At(BinlogPosition("binlog.000001", 4), is_placed=False), False),
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
        (inside(200), None),
        (between("binlog.000002", 500), None),
    ],
)
def test_executed_transactions_must_have_those_of_the_stream(stream: At, contains: bool | None) -> None:
    assert SnapshotContents(None, GtidSet.parse(f"{UUID}:1-5")).contains(stream) is contains


@pytest.mark.parametrize(
    ("contents", "stream"),
    [
        (SnapshotContents(None, None), between("binlog.000001", 4)),
        (SnapshotContents(None, None), between("binlog.000001", 4, f"{UUID}:1-5")),
        (SnapshotContents(None, GtidSet.parse(f"{UUID}:1-5")), between("binlog.000001", 4)),
    ],
)
def test_without_gtids_only_a_watermark_proves_anything(contents: SnapshotContents, stream: At) -> None:
    """The server has none, or the offset with which the stream began. Waiting would not help."""
    check_visibility(contents, stream, has_watermark=True)
    with pytest.raises(TableSkipped, match=r"enable GTIDs \(gtid_mode=ON\) .* or let the connector write to a signal table"):
        check_visibility(contents, stream, has_watermark=False)


def test_a_watermark_does_not_replace_what_the_server_says() -> None:
    contents = SnapshotContents(None, GtidSet.parse(f"{UUID}:1-5"))
    check_visibility(contents, between("binlog.000001", 4, f"{UUID}:1-5"), has_watermark=False)
    with pytest.raises(ChunkDelayed, match="not visible yet"):
        check_visibility(contents, between("binlog.000001", 4, f"{UUID}:1-6"), has_watermark=True)


class ScriptedConnection(MySqlConnection):
    """Answers queries, and keeps the statements in their order."""

    def __init__(self, answers: Mapping[str, Sequence[tuple[str | None, ...]]]) -> None:
        self.answers = answers
        self.statements: list[str] = []

    def query(
        self, sql: str, params: Sequence[str | int | None] = (), *, timeout_s: float | None = None
    ) -> list[tuple[str | None, ...]]:
        self.statements.append(sql)
        return list(self.answers.get(sql, ()))


_START = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
_STATUS = "SHOW STATUS LIKE 'binlog\\_snapshot\\_%'"


def test_mysql_is_asked_before_the_snapshot_and_mariadb_within_it() -> None:
    executed = "SELECT @@GLOBAL.gtid_executed"
    mysql = ScriptedConnection({executed: [(f"{UUID}:1-5",)]})
    server = ServerInfo("8.4.0", (8, 4, 0), False, {"gtid_mode": "ON"})
    assert start_transaction(mysql, server) == SnapshotContents(None, GtidSet.parse(f"{UUID}:1-5"))
    assert mysql.statements == [executed, _START]
    mariadb = ScriptedConnection({_STATUS: [("Binlog_snapshot_file", "b.000001"), ("Binlog_snapshot_position", "77")]})
    server = ServerInfo("11.4.5-MariaDB", (11, 4, 5), True, {})
    assert start_transaction(mariadb, server) == SnapshotContents(BinlogPosition("b.000001", 77), None)
    assert mariadb.statements == [_START, _STATUS]


@pytest.mark.parametrize("server", [ServerInfo("8.4.0", (8, 4, 0), False, {}), ServerInfo("11.4-MariaDB", (11, 4, 0), True, {})])
def test_servers_without_gtids_or_a_position_say_nothing(server: ServerInfo) -> None:
    assert start_transaction(ScriptedConnection({}), server) == SnapshotContents(None, None)


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
    assert BinlogMark.at(BinlogPosition("binlog.000002", 500, "0-1-70")).is_at_or_before(position) is is_reached
