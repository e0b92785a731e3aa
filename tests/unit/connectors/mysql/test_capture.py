"""A task with a server that sends what a test says: what it emits and stores when connections are lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from connect.record import SourceRecord
from connectors.cdc.errors import ConnectionLostError
from connectors.cdc.offsets import source_partition
from connectors.cdc.retries import RetrySchedule
from connectors.mysql import MySqlSourceTask, capture
from connectors.mysql.capture import MySqlCapture
from connectors.mysql.config import parse_config
from connectors.mysql.offsets import BinlogPosition, StoredBinlogOffset
from connectors.mysql.server import ServerInfo
from connectors.mysql.snapshot.session import MySqlSnapshotSession
from tests.support.source_runner import shown
from tests.unit.connectors.mysql.streaming.logged_transactions import EXPECTED, FILE, UUID, stream_start
from tests.unit.connectors.mysql.streaming.scripted_server import (
    CONFIG,
    FIRST,
    SECOND,
    SERVER,
    VARIABLES,
    Connection,
    ScriptedSessions,
)

LOST = ConnectionLostError("lost the connection")
OLD = ServerInfo("8.4.3", (8, 4, 3), False, {**VARIABLES, "server_uuid": "old"})
START = BinlogPosition(FILE, 1000, f"{UUID}:1-5")
PARTITION = source_partition("shop")


@dataclass
class ScriptedTask:
    """A task that knows the structure of its table, and continues at a stored position."""

    task: MySqlSourceTask
    sessions: ScriptedSessions

    def read(self, count: int) -> list[SourceRecord]:
        """Polls until there are so many records."""
        found: list[SourceRecord] = []
        for _ in range(100):
            found += self.task.poll() or ()
            if len(found) >= count:
                return found
        raise AssertionError([shown(record) for record in found])

    def stored(self, record: SourceRecord) -> dict[str, Any]:
        """The offset that is stored when this record is the last one that was acknowledged."""
        assert record.source_offset is not None
        ((_, offset),) = self.task.update_offsets([(PARTITION, record.source_offset)])
        return dict(offset)


Scripted = Callable[..., ScriptedTask]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """Creates tasks, which end with the test."""
    monkeypatch.setattr(capture, "MySqlSessions", ScriptedSessions)
    created: list[MySqlSourceTask] = []

    def create(
        *connections: Connection, server: ServerInfo = SERVER, stored: StoredBinlogOffset | None = None, **config: str
    ) -> ScriptedTask:
        settings = parse_config({**CONFIG, **{key.replace("_", "."): value for key, value in config.items()}})
        stored = stored or StoredBinlogOffset(START, True, server_uuid=server.uuid)
        made = MySqlCapture(settings, stored, lambda topic, settings: pytest.fail("the history is in memory"))
        sessions = made.sessions
        assert isinstance(sessions, ScriptedSessions)
        sessions.connections, sessions.server = list(connections), server
        structures, ddl = made._structures, "CREATE TABLE t (id INT, n INT, PRIMARY KEY (id))"
        structures.set_server(server)
        structures.record(structures.changes_of(ddl, "db"), {"file": FILE, "pos": 4}, "db", ddl, ts_ms=0)
        made._position.structure_is_current = True
        created.append(task := MySqlSourceTask())
        task._begin(made, RetrySchedule(-1, 0.0), 0.0, 0.0)
        return ScriptedTask(task, sessions)

    yield create
    for task in created:
        task.stop()
        task.close()


def test_rows_that_a_failing_heartbeat_follows_are_not_lost(scripted: Scripted) -> None:
    running = scripted(
        [[*stream_start(4), *FIRST]], [[*stream_start(4), *SECOND]],
        heartbeat_interval_ms="1", heartbeat_action_query="UPDATE beats SET n = n + 1",
    )  # fmt: skip
    found = [shown(record) for record in running.read(2 * len(EXPECTED))]
    assert found == EXPECTED * 2
    assert [str(start) for start in running.sessions.starts] == [f"{UUID}:1-5", f"{UUID}:1-6"]


@pytest.mark.parametrize("refused", [(), (LOST, LOST)], ids=["at once", "later"])
def test_transaction_that_another_server_takes_over_is_repeated_from_its_beginning(
    scripted: Scripted, refused: tuple[Exception, ...]
) -> None:
    """Even if the files have the same names, and the transaction is at the same place in them: its events may be others."""
    running = scripted([[*stream_start(4), *FIRST[:5]], LOST], *refused, [[*stream_start(4), *FIRST, *SECOND]], server=OLD)
    before = running.read(2)
    assert [shown(record) for record in before] == EXPECTED[:2]
    running.sessions.server = SERVER
    after = running.read(2 * len(EXPECTED))
    assert [shown(record) for record in after] == EXPECTED * 2
    assert [str(start) for start in running.sessions.starts] == [f"{UUID}:1-5"] * (2 + len(refused))


def test_offsets_of_the_old_server_keep_its_name_when_they_are_stored_later(scripted: Scripted) -> None:
    running = scripted([[*stream_start(4), *FIRST[:5]], LOST], [[*stream_start(4), *FIRST[:5]], LOST], server=OLD)
    first = running.read(2)
    running.sessions.server = SERVER
    second = running.read(2)
    assert first[1].source_offset is not None
    stored = [running.stored(record) for record in (first[1], second[1])]
    assert [(offset["server_uuid"], offset["event"]) for offset in stored] == [("old", 3), ("new", 3)]


def test_history_is_rebuilt_for_the_beginning_of_a_transaction_that_another_server_takes_over(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream continues there when the structure is read."""
    found: list[BinlogPosition] = []

    class RecordedSnapshot(MySqlSnapshotSession):
        def start_structure(self, at: BinlogPosition | None = None, offset: Mapping[str, Any] | None = None) -> None:
            assert at is not None
            found.append(at)

    monkeypatch.setattr(capture, "MySqlSnapshotSession", RecordedSnapshot)
    position = replace(START, events=3, rows=1, tx_gtid=f"{UUID}:6")
    for uuid in ("old", "new"):
        stored = StoredBinlogOffset(position, True, server_uuid=uuid)
        scripted(stored=stored, snapshot_mode="recovery").task.poll()
    assert found == [START, position]
