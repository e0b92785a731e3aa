"""Runs the source task with a real database file, as a worker does."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connect.record import SourceRecord
from connect.testing import MemoryOffsets, SourceHarness
from connectors.sqlite import SqliteSourceTask
from tests.support.replayed_events import plain
from tests.support.waiting import WAIT_S, Deadline, eventually

Event = tuple[str, Any, Any]


class SqliteCase:
    """A database, a writer in this process, and the connector's configuration and offsets."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "shop.db"
        self.writer = self.connect()
        self.writer.execute("PRAGMA journal_mode=WAL")
        self.offsets = MemoryOffsets()
        self.config = {"topic.prefix": "shop", "database.file": str(self.path), "poll.interval.ms": "10"}
        self.harness: SourceHarness | None = None

    def connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=WAIT_S)
        connection.execute("PRAGMA synchronous=OFF")
        return connection

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.writer.execute(statement)

    def wait_for_clock(self) -> None:
        """Returns when later changes have another time than those so far."""
        is_over = "SELECT julianday('now') > max(at) FROM _sluice_changes"
        eventually(lambda: self.writer.execute(is_over).fetchone() == (1,), "a later time")

    def start(self, **config: str) -> SourceHarness:
        """Starts a task, with the stored offsets."""
        self.config.update({key.replace("_", "."): value for key, value in config.items()})
        self.harness = SourceHarness(SqliteSourceTask(), self.config, self.offsets).start()
        return self.harness

    def stop(self) -> None:
        if self.harness is not None:
            self.harness.stop()
            self.harness = None

    def commit(self) -> None:
        """The offsets of all polled records are stored."""
        assert self.harness is not None
        self.harness.commit()

    def restart(self, **config: str) -> SourceHarness:
        self.stop()
        return self.start(**config)

    def poll_until(self, is_done: Callable[[list[SourceRecord]], bool]) -> list[SourceRecord]:
        """Polls until the records are enough. Raises what the task raises."""
        assert self.harness is not None
        found: list[SourceRecord] = []
        deadline = Deadline("records", lambda: [shown(record) for record in found])
        while not is_done(found):
            deadline.check()
            found += self.harness.poll()
        return found

    def read_all(self) -> list[SourceRecord]:
        """Polls until everything that is committed now is emitted."""
        assert self.harness is not None
        harness = self.harness
        silent = 0

        def is_done(records: list[SourceRecord]) -> bool:
            nonlocal silent
            progress = harness.task.progress()
            is_behind = progress["phase"] not in ("streaming", "done") or progress.get(
                "lag_rows", 1 if progress["phase"] != "done" else 0
            )
            silent = 0 if is_behind else silent + 1
            return silent > 3

        return self.poll_until(is_done)

    def events(self) -> list[Event]:
        return events(self.read_all())

    def table(self, name: str) -> list[tuple[Any, ...]]:
        return self.writer.execute(f'SELECT * FROM "{name}" ORDER BY 1').fetchall()


def shown(record: SourceRecord) -> Any:
    value = plain(record.value)
    return value if value is None else (value["op"], value["before"], value["after"])


def events(records: list[SourceRecord]) -> list[Event]:
    """ChangeOperation, before, and after of each event; tombstones are left out."""
    return [shown(record) for record in records if record.value is not None]


def sources(records: list[SourceRecord]) -> list[dict[str, Any]]:
    return [plain(record.value)["source"] for record in records if record.value is not None]


@pytest.fixture
def case(tmp_path: Path) -> Iterator[SqliteCase]:
    case = SqliteCase(tmp_path)
    yield case
    case.stop()
    case.writer.close()
