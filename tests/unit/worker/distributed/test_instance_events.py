"""Which reports of the executor become statuses."""

from __future__ import annotations

import pytest

from tests.unit.worker.distributed.fakes import FakeWorker
from worker.model import State, TargetState, TaskId

TASK = TaskId("c", 0)


@pytest.fixture
def worker() -> FakeWorker:
    worker = FakeWorker()
    worker.instances.add_connector("c", TargetState.STARTED)
    worker.instances.add_tasks([TASK], None)
    return worker


def report(worker: FakeWorker, state: State) -> list[tuple[str | TaskId, str]]:
    """Reports a state of the connector and its task. Returns the statuses written for it."""
    worker.status_store.written.clear()
    worker.reports.on_connector_state(1, "c", state, None, None)
    worker.reports.on_task_state(2, TASK, state, None, None)
    worker.run()
    return worker.status_store.written


def stop(worker: FakeWorker) -> None:
    worker.instances.connectors.clear()
    worker.instances.tasks.clear()


@pytest.mark.parametrize("state", [State.RUNNING, State.FAILED])
def test_states_of_running_instances_are_written(worker: FakeWorker, state: State) -> None:
    assert report(worker, state) == [("c", state.value), (TASK, state.value)]


def test_late_start_does_not_hide_the_status_of_the_new_owner(worker: FakeWorker) -> None:
    stop(worker)
    assert report(worker, State.RUNNING) == []
    assert report(worker, State.UNASSIGNED) == [("c", "UNASSIGNED"), (TASK, "UNASSIGNED")]


def test_failure_while_stopping_is_written_as_unassigned(worker: FakeWorker) -> None:
    stop(worker)
    assert report(worker, State.FAILED) == [("c", "UNASSIGNED"), (TASK, "UNASSIGNED")]


def test_reports_of_outdated_runs_are_ignored(worker: FakeWorker) -> None:
    worker.instances.add_connector("c", TargetState.STARTED)
    worker.instances.add_tasks([TASK], None)
    assert report(worker, State.RUNNING) == []
