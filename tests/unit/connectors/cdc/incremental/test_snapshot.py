"""Incremental snapshots over a scripted source of chunks."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from connect.record import SourceRecord
from connect.testing import ManualClock
from connectors.cdc.config.signal_keys import NotificationSettings
from connectors.cdc.errors import ConnectionLostError, RejectedStatementError
from connectors.cdc.incremental.chunks import Chunk, ChunkDelayed, TableSkipped, continue_scan
from connectors.cdc.incremental.context import DataCollection, TableScan
from connectors.cdc.incremental.java_keys import JavaKeys
from connectors.cdc.incremental.notifications import Notifier
from connectors.cdc.incremental.requests import SnapshotRequest
from connectors.cdc.incremental.snapshot import IncrementalSnapshot
from connectors.cdc.incremental.watermarks import Watermarks
from connectors.cdc.incremental.window import ChunkWindow, comparable
from connectors.cdc.signals.actions import Signal
from connectors.cdc.signals.signal_table import SignalTable
from connectors.cdc.source_settings import SourceSettings
from connectors.cdc.streaming.observers import ChangeObservers
from connectors.mysql.config import parse_config

_CONFIG = {
    "topic.prefix": "shop",
    "database.hostname": "db",
    "database.port": "3306",
    "database.user": "u",
    "database.password": "p",
    "database.server.id": "1",
    "schema.history.internal.kafka.topic": "h",
    "schema.history.internal.kafka.bootstrap.servers": "k:9092",
    "signal.data.collection": "d.signals",
}
OPEN, CLOSE = "snapshot-window-open", "snapshot-window-close"
Table = tuple[str, str]
Change = tuple[int | None, int | None]
"""The keys before and after a change."""


def settings(**changes: str) -> SourceSettings:
    return parse_config({**_CONFIG, **{key.replace("_", "."): value for key, value in changes.items()}})


class IntegerWindow(ChunkWindow[int, Table, Change]):
    """Rows that are their keys."""

    def __init__(self, table: Table, rows: Sequence[int]) -> None:
        super().__init__()
        self.table = table
        for row in rows:
            self.add((row,), row)

    def is_of(self, table: Table) -> bool:
        return table == self.table

    def on_change(self, change: Change, table: Table, *, keeps_same: bool) -> None:
        if change == (None, None):
            self.remove(None)
        for key in change:
            if key is not None:
                self.remove((key,))


@dataclass
class ScriptedSource:
    """Reads two rows per chunk; ``problems`` are raised first. Each chunk is at the position 10 times its last row."""

    rows: dict[Table, list[int]]
    problems: list[Exception] = field(default_factory=list)
    finished: int = 0
    java_keys: JavaKeys = field(default_factory=lambda: JavaKeys({}, str))
    crash_point: str = "test.chunk"

    def find_tables(self) -> list[Table]:
        return list(self.rows)

    def read(self, collection: DataCollection, scan: TableScan) -> Chunk[IntegerWindow, int]:
        if self.problems:
            raise self.problems.pop(0)
        table = (collection.schema, collection.name)
        rows = self.rows[table]
        done = int(scan.end[0] or 0) if scan.end else 0
        found = [row for row in rows if row > done][:2]
        started = TableScan(("id",), ("int",), scan.end, (str(rows[-1]),))
        return Chunk(IntegerWindow(table, found), started, (str(found[-1]),), len(found), len(found) < 2, 10 * found[-1])

    def records(self, window: IntegerWindow, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[SourceRecord]:
        return [SourceRecord(None, before, "t", None, None, row, None, None) for row in window.rows()]

    def finish(self) -> None:
        self.finished += 1

    def close(self) -> None: ...


class Writer:
    """Keeps what was written to the signal table, and the types of its rows by their IDs."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.rows: dict[str, str] = {}
        self.refuses = False

    def insert(self, signal_id: str, signal_type: str, data: str) -> None:
        if self.refuses:
            raise RejectedStatementError("read-only")
        self.written.append(signal_type)
        self.rows[signal_id] = signal_type

    def delete(self, signal_id: str) -> None:
        self.written.append(f"delete {self.rows.pop(signal_id)}")


class Rig:
    """A snapshot, and the stream that it follows."""

    def __init__(self, source: ScriptedSource, **changes: str) -> None:
        self.source = source
        self.writer = Writer()
        self.observers: ChangeObservers[Table, Table, Change, int] = ChangeObservers(1 << 60)
        values = settings(**changes)
        notifier = Notifier(NotificationSettings(frozenset(), None), "shop")
        watermarks = Watermarks(values, self.writer)
        self.clock = ManualClock()
        self.snapshot = IncrementalSnapshot(
            source, self.observers, watermarks, notifier, skips_unchanged=False, clock=self.clock.monotonic
        )
        for table in source.rows:
            self.observers.bind(table, table)

    def execute(self, *names: str) -> None:
        self.snapshot.execute(SnapshotRequest("s1", names))

    def reach(self) -> list[int]:
        """The stream reaches the mark; returns the rows that are emitted."""
        assert self.observers.awaits_mark
        return [record.key for record in self.observers.reach_mark({"pos": self.observers.mark})]


_T, _U = ("d", "t"), ("d", "u")


def test_chunks_are_emitted_at_their_positions_until_the_table_is_read() -> None:
    rig = Rig(ScriptedSource({_T: [1, 2, 3]}))
    rig.execute("d.t")
    rig.snapshot.advance()
    assert rig.observers.mark == 20
    rig.snapshot.advance()  # nothing happens until the position is reached
    assert rig.reach() == [1, 2]
    assert not rig.observers.awaits_mark
    rig.snapshot.advance()
    assert rig.reach() == [3]
    assert rig.snapshot.progress() == {}
    assert rig.observers.offset_extras == {}
    rig.snapshot.advance()
    rig.snapshot.advance()
    assert rig.source.finished == 1
    assert rig.writer.written == [OPEN, CLOSE] * 2


def test_changes_replace_rows_and_unknown_ones_the_whole_chunk() -> None:
    rig = Rig(ScriptedSource({_T: [1, 2, 3], _U: [1]}))
    rig.execute("d.t")
    rig.snapshot.advance()
    assert set(rig.observers.watched) == {_T}
    rig.observers.watched[_T].on_change(_T, (1, 7))
    assert rig.reach() == [2]
    assert rig.observers.watched == {}
    rig.snapshot.advance()
    rig.observers.watched[_T].on_change(_T, (None, None))
    assert rig.reach() == []
    rig.snapshot.advance()
    assert rig.reach() == [3]


def test_truncate_removes_the_rows_and_a_lost_connection_the_chunk() -> None:
    rig = Rig(ScriptedSource({_T: [1, 2, 3]}))
    rig.execute("d.t")
    rig.snapshot.advance()
    rig.observers.truncate(_T)
    assert rig.reach() == []
    rig.snapshot.advance()
    rig.observers.reset()
    assert not rig.observers.awaits_mark
    rig.snapshot.advance()
    assert rig.reach() == [3]


def test_a_delayed_chunk_is_read_later_and_a_table_that_cannot_be_read_is_skipped() -> None:
    delays = [ChunkDelayed("wait") for _ in range(7)]
    source = ScriptedSource({_T: [1, 2], _U: [5]}, [*delays, TableSkipped("NO_PRIMARY_KEY", "no key"), ChunkDelayed("wait")])
    rig = Rig(source)
    rig.execute(r"d\..*")
    for wait_s in (0, 0.05, 0.1, 0.2, 0.4, 0.8, 1, 1):
        left = len(source.problems)
        if wait_s:
            rig.clock.advance(wait_s * 0.9)
            rig.snapshot.advance()
            assert len(source.problems) == left
        rig.clock.advance(wait_s * 0.2)
        rig.snapshot.advance()
        assert len(source.problems) == left - 1
    assert not rig.observers.awaits_mark
    rig.snapshot.advance()  # the next table, whose first attempt waits for nothing
    assert source.problems == []
    rig.clock.advance(0.05)
    rig.snapshot.advance()
    assert rig.reach() == [5]


@pytest.mark.parametrize(
    ("strategy", "written"), [("insert_insert", [OPEN, CLOSE, OPEN]), ("insert_delete", [OPEN, f"delete {OPEN}", OPEN])]
)
@pytest.mark.parametrize(
    "problem", [ChunkDelayed("wait"), TableSkipped("NO_PRIMARY_KEY", "no key"), ConnectionLostError("the server is gone")]
)
def test_the_window_of_a_chunk_that_is_not_read_is_closed(problem: Exception, strategy: str, written: list[str]) -> None:
    rig = Rig(ScriptedSource({_T: [1], _U: [1]}, [problem]), incremental_snapshot_watermarking_strategy=strategy)
    rig.execute(r"d\..*")
    with contextlib.suppress(ConnectionLostError):
        rig.snapshot.advance()
    is_lost = isinstance(problem, ConnectionLostError)
    assert rig.writer.written == (written[:1] if is_lost else written[:2])
    rig.clock.advance(1)
    rig.snapshot.advance()
    assert rig.writer.written[:3] == written
    assert len(rig.writer.written) == 4


def test_watermarks_that_are_rejected_are_not_written_again() -> None:
    rig = Rig(ScriptedSource({_T: [1, 2, 3]}))
    rig.writer.refuses = True
    rig.execute("d.t")
    rig.snapshot.advance()
    rig.writer.refuses = False
    assert rig.reach() == [1, 2]
    rig.snapshot.advance()
    assert rig.reach() == [3]
    assert rig.writer.written == []


@pytest.mark.parametrize(
    ("changes", "written"),
    [
        ({"read_only": "true"}, []),
        ({"signal_data_collection": ""}, []),
        ({"incremental_snapshot_watermarking_strategy": "insert_delete"}, [OPEN, f"delete {OPEN}"]),
    ],
)
def test_watermarks_are_not_written_or_are_deleted(changes: dict[str, str], written: list[str]) -> None:
    rig = Rig(ScriptedSource({_T: [1]}), **changes)
    rig.execute("d.t")
    rig.snapshot.advance()
    assert rig.reach() == [1]
    assert rig.writer.written == written
    assert rig.writer.rows == {}


def test_an_offset_continues_behind_the_last_chunk() -> None:
    rig = Rig(ScriptedSource({_T: [1, 2, 3]}))
    rig.execute("d.t")
    rig.snapshot.advance()
    rig.reach()
    stored = dict(rig.observers.offset_extras)
    again = Rig(ScriptedSource({_T: [1, 2, 3]}))
    again.snapshot.load(stored)
    again.snapshot.advance()
    assert again.reach() == [3]


def test_values_that_equal_themselves_are_comparable() -> None:
    assert comparable(float("nan")) == comparable(float("nan"))
    assert comparable({"a": [1, float("nan")]}) == comparable({"a": [1, float("nan")]})
    assert hash(comparable([{"a": 1}]))


def test_signals_are_inserted_rows_of_the_signal_table() -> None:
    found: list[Signal] = []
    values = settings().signals
    table: SignalTable[Table, Sequence[str | None] | None] = SignalTable(
        values, found.append, lambda rows: rows, lambda rows, change: change
    )
    assert table.observes(("d", "signals"))
    assert not table.observes(_T)
    table.on_change(("d", "signals"), ("1", "log", None))
    table.on_change(("d", "signals"), None)
    table.on_change(("d", "signals"), ("1", "log", None, "x"))
    assert [(signal.id, signal.type, signal.data) for signal in found] == [("1", "log", None)]


_STARTED = TableScan(("name",), ("text",), None, ("9",), ("C",))
_CONTINUED = TableScan(("name",), ("text",), ("3",), ("7",), ("C",))


@pytest.mark.parametrize(
    ("scan", "expected"),
    [
        (TableScan(), _STARTED),
        (_CONTINUED, _CONTINUED),
        (TableScan((), (), ("3",), ("7",)), _CONTINUED),
        (TableScan(("name",), ("text",), ("3",), ("7",)), _CONTINUED),
        (TableScan(("name",), ("int",), ("3",), ("7",), ("C",)), _STARTED),
        (TableScan(("name",), ("text",), ("3",), ("7",), ("de",)), _STARTED),
        (TableScan(("other",), ("text",), ("3",), ("7",), ("C",)), _STARTED),
        (TableScan((), (), ("3", "4"), ("7", "8")), _STARTED),
    ],
)
def test_a_scan_by_other_columns_types_or_orders_starts_over(scan: TableScan, expected: TableScan) -> None:
    assert continue_scan("d.t", scan, ("name",), ("text",), ("C",), lambda: ("9",)) == expected
