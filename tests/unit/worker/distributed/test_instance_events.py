"""Which reports of the executor become statuses."""

from __future__ import annotations

import pytest

from tests.unit.worker.distributed.fakes import FakeWorker
from worker.model import Stall, State, TargetState, TaskId

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


def test_stall_is_written_with_the_state_until_the_instance_moves_or_its_state_changes(worker: FakeWorker) -> None:
    stall = Stall("call", "polling", 5, "poll() has not returned")
    report(worker, State.RUNNING)
    worker.reports.on_stall(2, TASK, stall)
    worker.reports.on_stall(7, "c", stall)  # an outdated run
    worker.run()
    found = worker.status_store.statuses
    assert (found[TASK].state, found[TASK].stalled, found["c"].stalled) == (State.RUNNING, stall, None)
    worker.status_store.written.clear()
    worker.reports.on_stall(2, TASK, stall)  # repeated
    worker.run()
    assert worker.status_store.written == []
    worker.reports.on_stall(2, TASK, None)
    worker.run()
    assert found[TASK].stalled is None
    worker.reports.on_stall(2, TASK, stall)
    worker.run()
    report(worker, State.PAUSED)
    assert found[TASK].stalled is None


def test_connector_that_stalls_before_its_first_state_is_unassigned(worker: FakeWorker) -> None:
    worker.reports.on_stall(1, "c", Stall("call", "start", 5, "start() has not returned"))
    worker.run()
    status = worker.status_store.statuses["c"]
    assert (status.state, status.stalled is not None) == (State.UNASSIGNED, True)
