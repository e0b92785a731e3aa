"""The point in time of a snapshot, by what the server reports."""

from __future__ import annotations

from connectors.mysql.offsets import BinlogPosition
from connectors.mysql.server import ServerInfo
from connectors.mysql.snapshot.point import start_transactions
from tests.unit.connectors.mysql.incremental.test_visibility import ScriptedConnection

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
STATUS = "SHOW STATUS LIKE 'binlog\\_snapshot\\_%'"


def test_percona_server_reports_position_and_gtids_at_once() -> None:
    status = [
        ("Binlog_snapshot_file", "binlog.000003"),
        ("Binlog_snapshot_position", "190"),
        ("Binlog_snapshot_gtid_executed", f"{UUID}:1-3:5,\n{UUID}:4"),
    ]
    for mode, gtids in (("ON", f"{UUID}:1-5"), ("OFF", None)):
        connection = ScriptedConnection({STATUS: status})
        server = ServerInfo("8.0.36-28", (8, 0, 36), False, {"gtid_mode": mode})
        position = start_transactions([connection], server, is_locked=True)
        assert position == BinlogPosition("binlog.000003", 190, gtids)
        assert [sql for sql in connection.statements if "SHOW" in sql] == [STATUS]


def test_transactions_of_different_positions_are_no_snapshot() -> None:
    connections = [
        ScriptedConnection({STATUS: [("Binlog_snapshot_file", "b.000003"), ("Binlog_snapshot_position", position)]})
        for position in ("190", "200")
    ]
    server = ServerInfo("11.4.5-MariaDB", (11, 4, 5), True, {})
    assert start_transactions(connections, server, is_locked=False) is None
