"""Stalls of connectors and tasks in an executor, found while their threads hang."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from tests.unit.worker.executors.conftest import RecordingListener, connector_spec, task_spec
from tests.unit.worker.executors.plugins import SCRIPTS
from worker.executors.local import LocalExecutor
from worker.executors.messages import progress_of_plain, progress_to_plain, stall_of_plain, stall_to_plain
from worker.model import Stall, TargetState, TaskId
from worker.observability.stalls import executor_stall

_NOW = {"task__stall__timeout__ms": "1"}


def _check_until(executor: LocalExecutor, listener: RecordingListener, start_id: int, who: str, what: str) -> None:
    for _ in range(200):
        executor.check_stalls()
        if what in listener.reported(start_id, who):
            return
        listener_wait(listener)
    raise AssertionError(f"no {what} of {who}: {listener.reports}")


def listener_wait(listener: RecordingListener) -> None:
    with listener._changed:
        listener._changed.wait(0.02)


def test_connector_whose_start_hangs_is_reported_and_reported_again_when_it_moves(
    executor: LocalExecutor, listener: RecordingListener, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    SCRIPTS[name].hang_in = "start"
    executor.start_connector(3, connector_spec(name, **_NOW), TargetState.STARTED)
    assert SCRIPTS[name].hanging.wait(10)
    with caplog.at_level(logging.WARNING):
        _check_until(executor, listener, 3, name, "stalled call start")
        executor.check_stalls()
        SCRIPTS[name].proceed.set()
        listener.wait_for(3, name, "RUNNING")
        executor.check_stalls()
    assert listener.reported(3, name) == ["stalled call start", "RUNNING", "moves"]
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].startswith(f"Connector {name} has stalled since 20")
    assert lines[0].endswith("start() of the connector has not returned")
    assert lines[1].startswith(f"Connector {name} moves again; it had stalled since 20")


def test_task_whose_poll_hangs_answers_for_its_progress_and_activity(
    executor: LocalExecutor, listener: RecordingListener, name: str
) -> None:
    SCRIPTS[name].hang_in = "poll"
    spec = task_spec(name)
    config = {**spec.connector.config, "task.stall.timeout.ms": "1", "task.stall.quiet.timeout.ms": "1"}
    executor.start_task(4, replace(spec, connector=replace(spec.connector, given=config, config=config)))
    assert SCRIPTS[name].hanging.wait(10)
    _check_until(executor, listener, 4, f"{name}-0", "stalled call polling")
    progress = executor.progress(TaskId(name, 0))
    assert progress is not None
    assert progress.activity is not None
    assert progress.stalled is not None
    assert (progress.activity.phase, progress.stalled.message) == ("polling", "poll() has not returned")
    assert progress_of_plain(progress_to_plain(progress)) == progress


def test_stall_crosses_the_interface_as_plain_data() -> None:
    stall = executor_stall(17)
    assert stall_of_plain(stall_to_plain(stall)) == stall
    assert stall_of_plain(stall_to_plain(None)) is None
    assert Stall(**stall_to_plain(stall) or {}) == stall
