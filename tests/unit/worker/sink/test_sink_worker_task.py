"""What a sink task reports about itself while its connector's code fails or hangs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from connect import TopicPartition
from tests.unit.worker.sink.sink_rig import P0, P1, TASK_ID, FakeTask
from tests.unit.worker.tasks.task_listener import Listener
from worker.model import ErrorCounts
from worker.sink.runtime import SinkTaskRuntime
from worker.sink.task import SinkWorkerTask


class LaggingTask(FakeTask):
    def __init__(self, lag: Any) -> None:
        super().__init__()
        self._lag = lag

    def lag(self) -> dict[TopicPartition, int] | None:
        lag: dict[TopicPartition, int] | None = self._lag
        return lag


def started(lag: Any) -> SinkWorkerTask:
    def create_runtime(listener: object) -> SinkTaskRuntime:
        raise AssertionError("the thread of the task does not run")

    task = SinkWorkerTask(TASK_ID, Listener(), create_runtime, 60, 1)
    runtime = SimpleNamespace(task=LaggingTask(lag), errors=SimpleNamespace(counts=ErrorCounts(skipped=3)))
    task._runtime = cast(SinkTaskRuntime, runtime)
    task._started = True
    task.report_lag({"t-0": 5}, is_paused=False)
    return task


@pytest.mark.parametrize("lag", [{P0: None}, {P0: float("inf")}, {0: 1}, [P0]])
def test_invalid_lag_of_the_plugin_is_ignored(lag: Any) -> None:
    task = started(lag)
    assert task.plugin_lag() == {}
    assert task.progress().lag == {"t-0": 5}


def test_progress_adds_the_lag_of_the_plugin() -> None:
    assert started({P0: 2, P1: 1}).progress().lag == {"t-0": 7, "t-1": 1}


def test_counts_without_the_plugin_have_errors_and_lag() -> None:
    found = started({P0: 2}).counts()
    assert (found.errors.skipped, found.lag) == (3, {"t-0": 5})
