"""The signal ``set-binlog-position``: the stream goes forward or back, says what it skips, and refuses places by name."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from connect.errors import BadRequestError
from connect.record import SourceRecord
from tests.integration.mysql.conftest import MariaDbRunningSource
from tests.integration.mysql.signaling import SignaledSource
from tests.support.waiting import Deadline

_TYPE = "set-binlog-position"


@pytest.fixture
def table(source: MariaDbRunningSource) -> SignaledSource:
    made = SignaledSource(source)
    made.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    return made


def place(table: SignaledSource) -> dict[str, Any]:
    """The end of the log, as data of a signal."""
    ((file, position, *_),) = table.execute("SHOW MASTER STATUS")
    return {"binlog_filename": file, "binlog_position": position}


def gtids(table: SignaledSource) -> dict[str, Any]:
    return {"gtid_set": table.execute("SELECT @@GLOBAL.gtid_binlog_pos")[0][0]}


PlaceOf = Callable[[SignaledSource], dict[str, Any]]


def insert(table: SignaledSource, number: int) -> None:
    table.execute(f"INSERT INTO t VALUES ({number})")


def of_table(records: list[SourceRecord]) -> list[SourceRecord]:
    return [record for record in records if record.topic.endswith(".t")]


def read(table: SignaledSource, is_done: Callable[[list[int]], bool]) -> list[int]:
    """The keys of the rows of t that arrive until they are enough; stores their offsets."""
    found: list[int] = []
    deadline = Deadline("rows", lambda: (found, table.task.progress()))
    while not is_done(found):
        deadline.check()
        records = table.poll()
        found += [record.value["after"]["id"] for record in of_table(records)]
        if records:
            table.source.store(records[-1])
    return found


@pytest.mark.parametrize("place_of", [place, gtids])
def test_stream_goes_back_once_and_emits_changes_again(
    table: SignaledSource, caplog: pytest.LogCaptureFixture, place_of: PlaceOf
) -> None:
    caplog.set_level(logging.INFO, "connectors.mysql")
    table.start()
    insert(table, 1)
    before = place_of(table)
    insert(table, 2)
    assert read(table, lambda found: 2 in found) == [1, 2]
    table.signal(_TYPE, before)
    assert read(table, lambda found: 2 in found) == [2]
    insert(table, 3)
    assert read(table, lambda found: 3 in found) == [3]
    assert "emitted again" in caplog.text
    assert "has moved to" in caplog.text  # the row of the signal was read again
    table.restart()
    insert(table, 4)
    assert read(table, lambda found: 4 in found) == [4]
    assert caplog.text.count(": the stream moves from ") == 1


@pytest.mark.parametrize("place_of", [place, gtids])
def test_stream_goes_forward_and_says_what_it_skips(
    table: SignaledSource, caplog: pytest.LogCaptureFixture, place_of: PlaceOf
) -> None:
    table.start()
    insert(table, 1)
    assert read(table, lambda found: 1 in found) == [1]
    table.source.kill()
    insert(table, 2)
    target = place_of(table)
    insert(table, 3)
    table.source.start()
    table.task.signal("go", _TYPE, json.dumps(target))
    assert read(table, lambda found: 3 in found) == [3]
    assert f"signal go: the stream moves from {table.stored['file']}:" in caplog.text
    assert ("bytes of the log are skipped" in caplog.text) is (place_of is place)
    assert ("skipped transactions: up to 0-1-" in caplog.text) is (place_of is gtids)
    assert "missing in the schema history" in caplog.text


@pytest.mark.parametrize("place_of", [place, gtids])
def test_moved_position_is_stored_without_further_changes(table: SignaledSource, place_of: PlaceOf) -> None:
    table.start()
    insert(table, 1)
    read(table, lambda found: 1 in found)
    table.source.kill()
    insert(table, 2)
    target, end = place_of(table), place(table)
    table.source.start()
    table.task.signal("go", _TYPE, json.dumps(target))
    done = {"pending": None, "done": ["go"]}
    table.source.idle_until(
        lambda: json.loads(table.stored.get("binlog_position_signals", "{}")) == done, "the move", flushes=True
    )
    table.restart()
    insert(table, 3)
    assert read(table, lambda found: 3 in found) == [3]
    assert table.stored["file"] == end["binlog_filename"]


def test_request_of_a_stored_offset_is_carried_out(table: SignaledSource, caplog: pytest.LogCaptureFixture) -> None:
    """The worker died between the signal and the move."""
    table.start()
    insert(table, 1)
    before = place(table)
    insert(table, 2)
    assert read(table, lambda found: 2 in found) == [1, 2]
    table.source.kill()
    pending = {"signal_id": "x", "gtids": None, "file": before["binlog_filename"], "position": before["binlog_position"]}
    table.stored["binlog_position_signals"] = json.dumps({"pending": pending, "done": []})
    table.source.start()
    assert read(table, lambda found: 2 in found) == [2]
    assert "signal x: the stream moves from" in caplog.text


def test_structure_is_that_of_the_place(table: SignaledSource) -> None:
    table.start()
    insert(table, 1)
    before = place(table)
    insert(table, 2)
    table.execute("ALTER TABLE t ADD name VARCHAR(9)")
    table.execute("INSERT INTO t VALUES (3, 'c')")
    assert read(table, lambda found: 3 in found) == [1, 2, 3]
    table.task.signal("back", _TYPE, json.dumps(before))
    found = table.source.poll_until(lambda found: len(of_table(found)) >= 2, "2 rows")
    assert [list(record.value["after"].as_dict()) for record in of_table(found)] == [["id"], ["id", "name"]]


def _inside(table: SignaledSource) -> dict[str, Any]:
    """A position between the events of a transaction."""
    insert(table, 100)
    file = place(table)["binlog_filename"]
    events = table.execute(f"SHOW BINLOG EVENTS IN '{file}'")
    return {"binlog_filename": file, "binlog_position": next(row[1] for row in reversed(events) if row[2] == "Table_map")}


def _moved(table: SignaledSource, by: int) -> dict[str, Any]:
    found = place(table)
    return {**found, "binlog_position": found["binlog_position"] + by}


REFUSED: list[tuple[PlaceOf, str]] = [
    (lambda table: {"binlog_filename": "other.000001", "binlog_position": 4}, "the server has no other.000001; it has "),
    (lambda table: _moved(table, 1000), " has only "),
    (lambda table: _moved(table, -1), "no event begins at position "),
    (_inside, "is inside a transaction (Table_map)"),
    (lambda table: {"gtid_set": "0-1-999999"}, "the server has not executed 0-1-999999"),
    (lambda table: {"gtid_set": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"}, "are not GTIDs of this kind of server"),
]


@pytest.mark.parametrize(("place_of", "reason"), REFUSED, ids=lambda one: one if isinstance(one, str) else "")
def test_places_where_the_stream_cannot_begin_are_refused(
    table: SignaledSource, caplog: pytest.LogCaptureFixture, place_of: PlaceOf, reason: str
) -> None:
    table.start()
    table.signal(_TYPE, place_of(table))
    insert(table, 1)
    assert read(table, lambda found: 1 in found and "the stream does not move to" in caplog.text)[-1] == 1
    assert reason in caplog.text
    assert "the stream moves from" not in caplog.text


@pytest.mark.parametrize("place_of", [place, gtids])
def test_place_before_the_schema_history_is_refused(
    table: SignaledSource, caplog: pytest.LogCaptureFixture, place_of: PlaceOf
) -> None:
    before = place_of(table)
    insert(table, 1)
    table.start()
    table.signal(_TYPE, before)
    insert(table, 2)
    assert read(table, lambda found: 2 in found and "the stream does not move to" in caplog.text) == [2]
    assert "the schema history has no table at that place or before it" in caplog.text


def _is_logged(caplog: pytest.LogCaptureFixture, text: str, found: list[int]) -> bool:
    return text in caplog.text


def test_place_that_was_purged_is_refused(table: SignaledSource, caplog: pytest.LogCaptureFixture) -> None:
    table.start()
    insert(table, 1)
    targets = place(table), gtids(table)
    insert(table, 2)
    assert read(table, lambda found: 2 in found) == [1, 2]
    table.source.kill()
    table.source.purge_log()
    table.source.start()
    for number, target in enumerate(targets):
        table.task.signal(f"s{number}", _TYPE, json.dumps(target))
        refused = f"signal s{number}: the stream does not move to"
        read(table, partial(_is_logged, caplog, refused))
    assert f"the server has no {targets[0]['binlog_filename']}; it has " in caplog.text
    assert "the server has removed transactions up to " in caplog.text


def test_moves_wait_for_no_snapshot(table: SignaledSource, caplog: pytest.LogCaptureFixture) -> None:
    table.start()
    table.execute("INSERT INTO t SELECT seq FROM seq_1_to_50")
    target = place(table)
    read(table, lambda found: len(found) == 50)
    # Not one after the other: meanwhile the snapshot could end.
    table.signal_at_once(("execute-snapshot", table.request_data("t")), (_TYPE, target))
    read(table, lambda found: "the stream does not move to" in caplog.text)
    assert "a snapshot runs; stop it (stop-snapshot)" in caplog.text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({}, "it needs either gtid_set, or binlog_filename and binlog_position"),
        ({"gtid_set": "0-1-1", "binlog_filename": "b.000001", "binlog_position": 4}, "it needs either"),
        ({"binlog_filename": "b.000001"}, "binlog_position must be a number of 0 or more, not None"),
        ({"binlog_position": 4}, "binlog_filename must be the name of a file"),
        ({"binlog_filename": "b.000001", "binlog_position": "4"}, "must be a number"),
        ({"gtid_set": "yesterday"}, "GTID"),
    ],
)
def test_signals_that_cannot_be_read_are_rejected(table: SignaledSource, data: dict[str, Any], reason: str) -> None:
    table.start()
    with pytest.raises(BadRequestError) as raised:
        table.task.signal("1", _TYPE, json.dumps(data))
    assert raised.value.message.startswith(f"signal of type {_TYPE}: ")
    assert reason in raised.value.message
