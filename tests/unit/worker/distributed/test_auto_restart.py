"""Which failures on a distributed worker are restarted automatically."""

from __future__ import annotations

import pytest

from tests.unit.worker.distributed.fakes import FakeWorker
from worker.distributed.local_instances import Instance
from worker.model import State, TargetState, TaskId
from worker.storage.record_codec import ConnectorRecord, TargetStateRecord

TASK = TaskId("c", 0)
CONFIG = {"name": "c", "errors.restart.max.attempts": "2", "errors.restart.delay.initial.ms": "60000"}


class Failing(FakeWorker):
    """A worker with a connector and a task that can fail."""

    def __init__(self) -> None:
        super().__init__()
        self.instances.add_connector("c", TargetState.STARTED)
        self.instances.add_tasks([TASK], None)
        self.store.configure(ConnectorRecord("c", CONFIG))
        self.set_target(TargetState.STARTED)

    def set_target(self, target: TargetState) -> None:
        self.store.configure(TargetStateRecord("c", target))
        self.config.apply_snapshot()

    def awaits_restart(self) -> bool:
        """Whether a restart of the task is scheduled, as its next status would show."""
        restarts = self.failed._auto_restart.on_state("c", 0, State.UNASSIGNED, None, CONFIG)
        return restarts is not None and restarts.next_ms is not None

    def restarted(self, instance: Instance) -> bool:
        restarted: list[Instance] = []
        self.failed.restart(instance, restarted.append)
        return restarted == [instance]


@pytest.fixture
def worker() -> Failing:
    return Failing()


def test_late_report_of_a_pause_does_not_cancel_the_restart_after_the_resume(worker: Failing) -> None:
    worker.statuses.report(TASK, State.FAILED, "trace")
    worker.set_target(TargetState.PAUSED)
    worker.statuses.reset_restarts("c")
    assert not worker.awaits_restart()
    worker.set_target(TargetState.STARTED)
    worker.statuses.reset_restarts("c")
    assert worker.awaits_restart()
    worker.statuses.report("c", State.PAUSED)
    assert worker.awaits_restart()


@pytest.mark.parametrize("state", [State.PAUSED, State.STOPPED])
def test_paused_or_stopped_connector_is_not_restarted(state: State, worker: Failing) -> None:
    worker.statuses.report(TASK, State.FAILED, "trace")
    assert worker.awaits_restart()
    worker.set_target(TargetState[state.name])
    worker.statuses.report("c", state)
    assert not worker.awaits_restart()
    assert not worker.restarted(TASK)


def test_new_run_is_not_reported_as_failed(worker: Failing) -> None:
    worker.statuses.report(TASK, State.FAILED, "trace")
    assert worker.restarted(TASK)
    worker.instances.add_tasks([TASK], None)
    worker.statuses.reset_restarts("c")
    assert not worker.awaits_restart()
    assert not worker.restarted(TASK)
