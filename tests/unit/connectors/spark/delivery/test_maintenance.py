"""Which tables the maintenance visits."""

from __future__ import annotations

from typing import Any

from connect.testing import ManualClock
from connectors.spark.delivery.sink_tables import MaintenanceThread
from connectors.spark.tables.writer import TableProgress


class Writer:
    def __init__(self, name: str) -> None:
        self.name = name
        self.progress = TableProgress()
        self.visits = 0
        self.error: Exception | None = None

    def maintain(self, is_stopping: Any) -> None:
        self.visits += 1
        if self.error is not None:
            raise self.error


def test_tables_are_visited_after_commits_and_at_times_without() -> None:
    """Another writer's commits may let the offsets of a quiet table expire."""
    clock, busy, quiet = ManualClock(), Writer("busy"), Writer("quiet")
    writers: Any = [busy, quiet]
    thread = MaintenanceThread("care", lambda: writers, clock=clock.monotonic)
    for _ in range(3):
        busy.progress.commits += 1
        thread.visit_all()
        clock.advance(5)
    assert (busy.visits, quiet.visits) == (3, 1)
    clock.advance(600)
    thread.visit_all()
    assert (busy.visits, quiet.visits) == (4, 2)


def test_a_failed_visit_is_tried_again() -> None:
    clock, table = ManualClock(), Writer("t")
    writers: Any = [table]
    thread = MaintenanceThread("care", lambda: writers, clock=clock.monotonic)
    table.error = OSError("unreachable")
    for _ in range(2):
        thread.visit_all()
    assert (table.visits, table.progress.maintenance_failures) == (2, 2)
