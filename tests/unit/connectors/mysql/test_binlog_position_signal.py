"""Where ``set-binlog-position`` lets the stream of a MySQL server begin, which the integration tests do not have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connect.errors import DataError
from connectors.cdc.streaming.offset_extras import OffsetExtras
from connectors.mysql.config import parse_config
from connectors.mysql.offsets import BinlogPosition
from connectors.mysql.signals.binlog_position import BinlogPositionSignal, PositionRequest, StreamMove, parse_request, plan_move
from tests.unit.connectors.mysql.test_server import A, B, info, scripted

_CONFIG = {
    "topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.server.id": "5",
    "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
}  # fmt: skip
_FILES = [("binlog.000001", "1000"), ("binlog.000002", "2000"), ("binlog.000003", "500")]


def planned(
    data: dict[str, Any],
    current: BinlogPosition,
    *,
    gtid_mode: str = "OFF",
    event: tuple[str, str] | None = ("Anonymous_Gtid", ""),
    executed: str = "",
    purged: str = "",
    **config: str,
) -> StreamMove:
    request = parse_request("1", data)
    settings = parse_config({**_CONFIG, **{key.replace("_", "."): value for key, value in config.items()}})
    events = f"SHOW BINLOG EVENTS IN %s FROM {request.position} LIMIT 1"
    connection = scripted(
        {
            "SHOW BINARY LOGS": _FILES,
            events: [] if event is None else [("", "", event[0], "", "", event[1])],
            "SELECT @@GLOBAL.gtid_executed": [(executed,)],
            "SELECT @@GLOBAL.gtid_purged": [(purged,)],
        }
    )
    return plan_move(connection, info(gtid_mode=gtid_mode), request, current, settings)


AT = BinlogPosition("binlog.000002", 300)


@pytest.mark.parametrize(
    ("file", "position", "event", "effect"),
    [
        ("binlog.000003", 100, ("Anonymous_Gtid", ""), "changes in 1800 bytes of the log are skipped. Statements"),
        ("binlog.000001", 900, ("Query", "BEGIN"), "changes in 400 bytes of the log are emitted again"),
        ("binlog.000003", 500, None, "changes in 2200 bytes of the log are skipped"),
        ("binlog.000002", 0, ("Format_desc", ""), "changes in 296 bytes of the log are emitted again"),
    ],
)
def test_positions_of_files(file: str, position: int, event: tuple[str, str] | None, effect: str) -> None:
    move = planned({"binlog_filename": file, "binlog_position": position}, AT, event=event)
    assert move.target == BinlogPosition(file, max(position, 4))
    assert move.effect.startswith(effect)


def test_gtids_replace_those_of_the_position_and_its_part_of_a_transaction() -> None:
    current = BinlogPosition("binlog.000002", 300, f"{A}:1-50", 3, 1, f"{A}:51")
    move = planned({"gtid_set": f"{A}:1-40,{B}:1-7"}, current, gtid_mode="ON", executed=f"{A}:1-60,{B}:1-9")
    assert move.target == BinlogPosition("binlog.000002", 300, f"{A}:1-40,{B}:1-7")
    assert f"skipped transactions: {B}:1-7; transactions emitted again: {A}:41-50" in move.effect


PLACE = {"binlog_filename": "binlog.000002", "binlog_position": 300}


@pytest.mark.parametrize(
    ("data", "options", "reason"),
    [
        (PLACE, {"gtid_mode": "ON"}, "the server has GTIDs (gtid_mode=ON), which decide where a stream begins: give gtid_set"),
        (PLACE, {"event": ("Table_map", "")}, "position 300 of binlog.000002 is inside a transaction (Table_map)"),
        (PLACE, {"event": ("Query", "SAVEPOINT `a`")}, "is inside a transaction (Query)"),
        ({"gtid_set": f"{A}:1-5"}, {}, "the server has no GTIDs (gtid_mode): give binlog_filename and binlog_position"),
        ({"gtid_set": f"{A}:1-5"}, {"gtid_mode": "ON", "gtid_ignore_on_recovery": "true"}, "gtid.ignore.on.recovery=true"),
        ({"gtid_set": "0-1-5"}, {"gtid_mode": "ON"}, "0-1-5 are not GTIDs of this kind of server; they are like <server_uuid>"),
        ({"gtid_set": f"{A}:1-5"}, {"gtid_mode": "ON", "executed": f"{A}:1-3"}, f"the server has not executed {A}:4-5"),
        (
            {"gtid_set": f"{A}:1-5"},
            {"gtid_mode": "ON", "executed": f"{A}:1-90", "purged": f"{A}:1-9"},
            f"the server has removed transactions up to {A}:6-9 from its log",
        ),
    ],
)
def test_places_that_are_refused(data: dict[str, Any], options: dict[str, Any], reason: str) -> None:
    with pytest.raises(DataError) as raised:
        planned(data, AT, **options)
    assert reason in raised.value.message


def test_positions_of_a_server_with_gtids_need_them_to_be_ignored() -> None:
    move = planned(PLACE, AT, gtid_mode="ON", gtid_ignore_on_recovery="true")
    assert move.target == BinlogPosition("binlog.000002", 300)


def test_requests_survive_in_offsets_and_are_carried_out_once() -> None:
    extras = OffsetExtras()
    signal = BinlogPositionSignal(extras, {})
    assert (signal.pending, extras.offset_extras) == (None, {})
    signal.handle("a", PLACE)
    restarted = OffsetExtras()
    again = BinlogPositionSignal(restarted, extras.offset_extras)
    assert again.pending == signal.pending == PositionRequest("a", None, "binlog.000002", 300)
    assert restarted.offset_extras == extras.offset_extras
    assert again.pending is not None
    again.finish(again.pending)
    for stored in (restarted.offset_extras, {}):
        third = BinlogPositionSignal(OffsetExtras(), stored)
        third.handle("a", PLACE)
        assert (third.pending is None) is bool(stored)


def test_only_the_last_ids_are_kept() -> None:
    extras = OffsetExtras()
    signal = BinlogPositionSignal(extras, {})
    for number in range(30):
        signal.handle(str(number), PLACE)
        assert signal.pending is not None
        signal.finish(signal.pending)
    assert json.loads(extras.offset_extras["binlog_position_signals"])["done"] == [str(number) for number in range(10, 30)]
