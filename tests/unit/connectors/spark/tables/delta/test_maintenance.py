"""When old files of a Delta table are deleted: by the table's age and its last VACUUM, whoever ran it, not by a task's uptime."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow import fs

from connectors.spark.tables.delta.maintenance import DeltaMaintenance
from tests.unit.connectors.spark.tables.delta.fake_delta import FakeDelta

DAY_S = 86_400.0
CREATED_S = 1_700_000_000.0


class Vacuums:
    """Visits of tasks to one table, which was created at ``CREATED_S``."""

    def __init__(self, folder: Path) -> None:
        self.now_s = CREATED_S
        self.count = 0
        self._delta = FakeDelta(folder, created_ms=int(CREATED_S * 1000))
        settings: dict[str, str] = {"spark.sql.shuffle.partitions": "2"}
        conf = SimpleNamespace(set=settings.__setitem__, get=settings.get)
        self._session: Any = SimpleNamespace(_jvm=None, _jsparkSession=None, conf=conf, sql=self._sql)

    def _sql(self, statement: str) -> None:
        assert statement.startswith("VACUUM ")
        self.count += 1
        self.note_vacuum()

    def note_vacuum(self) -> None:
        """What Delta's VACUUM leaves in the log."""
        mark = self._delta.folder / "_delta_log" / "_last_vacuum_info"
        mark.touch()
        os.utime(mark, (self.now_s, self.now_s))

    def task(self, interval_s: float = DAY_S) -> Callable[[], int]:
        """A visit of a new task, which may be repeated; returns how often VACUUM has run for any task."""
        folder = str(self._delta.folder)
        maintenance = DeltaMaintenance(self._session, folder, fs.LocalFileSystem(), folder, interval_s, lambda: self.now_s)
        transactions: Any = SimpleNamespace(begin=self._delta.begin)
        maintenance._transactions = transactions

        def visit() -> int:
            maintenance.run(lambda: False, lambda: False)
            return self.count

        return visit


@pytest.fixture
def vacuums(tmp_path: Path) -> Vacuums:
    return Vacuums(tmp_path / "t")


def test_tasks_that_run_for_an_hour_each_delete_old_files_once_a_day(vacuums: Vacuums) -> None:
    for _ in range(24 * 3 + 1):
        visit = vacuums.task()
        visit()
        visit()
        vacuums.now_s += 3600
    assert vacuums.count == 3


def test_a_vacuum_of_somebody_else_counts(vacuums: Vacuums) -> None:
    vacuums.now_s += 10 * DAY_S
    vacuums.note_vacuum()
    visit = vacuums.task()
    vacuums.now_s += DAY_S / 2
    assert visit() == 0
    vacuums.now_s += DAY_S / 2
    assert visit() == 1


def test_without_an_interval_nothing_is_deleted(vacuums: Vacuums) -> None:
    vacuums.now_s += 10 * DAY_S
    assert vacuums.task(0)() == 0
