"""The state of a standalone worker's connector ignores reports of outdated runs."""

from __future__ import annotations

import pytest

from worker.model import Stall, State, TaskId, TaskInfo
from worker.standalone.connector_state import ConnectorState


@pytest.fixture
def state() -> ConnectorState:
    state = ConnectorState("c", "w:1", "1.0")
    state.set_tasks([{"n": "0"}, {"n": "1"}], {"name": "c"})
    state.add_task_start(0, 10, "1.0")
    state.add_task_start(1, 11, "1.0")
    return state


def test_reports_of_current_runs_change_the_status(state: ConnectorState) -> None:
    assert state.report_task(10, 0, State.RUNNING, None, "1.0")
    status = state.connector_status("source")
    assert [(number, task.state) for number, task in status.tasks] == [(0, State.RUNNING), (1, State.UNASSIGNED)]


def test_reports_of_outdated_runs_are_ignored(state: ConnectorState) -> None:
    assert state.remove_task_runs([0]) == [0]
    state.add_task_start(0, 12, "1.0")
    assert not state.report_task(10, 0, State.FAILED, "trace", "1.0")
    state.add_topics(10, 0, ["old"])
    state.add_topics(12, 0, ["new"])
    assert dict(state.connector_status("source").tasks)[0].state is State.UNASSIGNED
    assert state.topics() == ["new"]
    state.reset_topics()
    assert state.topics() == []


def test_runs_are_removed_singly_or_all_together(state: ConnectorState) -> None:
    assert state.remove_task_runs([1, 7]) == [1]
    assert state.running_tasks() == [0]
    assert state.remove_task_runs(None) == [0]
    assert state.running_tasks() == []


def test_tasks_differ_when_their_configurations_or_the_connectors_differ(state: ConnectorState) -> None:
    assert state.has_tasks([{"n": "0"}, {"n": "1"}], {"name": "c"})
    assert not state.has_tasks([{"n": "0"}], {"name": "c"})
    assert not state.has_tasks([{"n": "0"}, {"n": "1"}], {"name": "c", "rotated": "secret"})
    assert not state.has_tasks_of({"name": "c", "rotated": "secret"})
    state.clear_tasks()
    assert state.has_tasks_of({"name": "c", "rotated": "secret"})


def test_task_infos_have_the_stored_configurations(state: ConnectorState) -> None:
    assert state.task_infos() == [TaskInfo(TaskId("c", 0), {"n": "0"}), TaskInfo(TaskId("c", 1), {"n": "1"})]


def test_stall_stays_until_the_task_moves_or_changes_its_state(state: ConnectorState) -> None:
    stall = Stall("call", "putting", 5, "put() has not returned")

    def shown() -> Stall | None:
        return dict(state.connector_status("sink").tasks)[0].stalled

    state.report_task(10, 0, State.RUNNING, None, "1.0")
    state.set_task_stall(9, 0, stall)  # an outdated run
    assert shown() is None
    state.set_task_stall(10, 0, stall)
    assert shown() == stall
    state.report_task(10, 0, State.PAUSED, None, "1.0")
    assert shown() is None
    state.set_stall(stall)
    assert state.connector_status("sink").connector.stalled == stall


def test_status_knows_since_when_its_state_lasts(state: ConnectorState) -> None:
    state.report_task(10, 0, State.RUNNING, None, "1.0")
    since_ms = dict(state.connector_status("sink").tasks)[0].since_ms
    state.report_task(10, 0, State.RUNNING, None, "1.0")
    assert since_ms is not None
    assert dict(state.connector_status("sink").tasks)[0].since_ms == since_ms
