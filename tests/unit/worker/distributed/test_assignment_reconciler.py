"""What runs on a worker follows its assignment and the configuration, however long starts and stops take."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any, cast

from tests.unit.worker.distributed.fakes import T0, T1, VERSION, FakeExecutor, configured, done, resolve
from worker.distributed.assignment_reconciler import AssignmentReconciler
from worker.distributed.local_instances import LocalInstances
from worker.group.protocol import Assignment
from worker.model import TargetState, TaskId
from worker.storage.config_state import ConfigState, apply
from worker.storage.record_codec import CommitRecord, ConfigRecord, ConnectorRecord, TargetStateRecord, TaskRecord


class Worker:
    """A reconciler whose jobs run when the test says so, and the configuration that it goes by. Implements InstanceEvents."""

    def __init__(self) -> None:
        self.state = ConfigState()
        self.executor = FakeExecutor()
        self.jobs: deque[Callable[[], None]] = deque()
        self.events: list[str] = []
        self.reconciler = AssignmentReconciler(
            cast(Any, self.executor), LocalInstances(), self, resolve, self._prefix, self.jobs.append, lambda: self.state
        )

    def _prefix(self, name: str) -> Future[str | None]:
        return done()

    def configure(self, *records: ConfigRecord) -> None:
        for record in records:
            self.state = apply(self.state, record, self.state.offset + 1).state

    def run(self) -> list[str]:
        """Runs all jobs. Returns the new requests to the executor."""
        while self.jobs:
            self.jobs.popleft()()
        requests, self.executor.requests = self.executor.requests, []
        return requests

    def assign(self, connectors: str = "", tasks: Collection[TaskId] = (), **more: Any) -> list[str]:
        offset = more.pop("offset", self.state.offset)
        self.reconciler.assign(
            Assignment(VERSION, config_offset=offset, connectors=tuple(connectors.split()), tasks=tuple(tasks), **more)
        )
        self.reconciler.reconcile()
        return self.run()

    def finish_stops(self) -> list[str]:
        stops, self.executor.stops = self.executor.stops, []
        for stop in stops:
            stop.set_result(None)
        return self.run()

    def connector_started(self, name: str) -> None:
        self.events.append(f"started {name}")

    def connector_stopped(self, name: str) -> None:
        self.events.append(f"stopped {name}")

    def tasks_stopped(self, tasks: Collection[TaskId]) -> None:
        self.events.extend(f"stopped {task}" for task in tasks)

    def connector_failed(self, name: str, error: BaseException) -> None:
        self.events.append(f"failed {name}: {error}")

    def tasks_failed(self, tasks: Collection[TaskId], error: BaseException) -> None:
        self.events.extend(f"failed {task}: {error}" for task in tasks)

    def stop_finished(self) -> None:
        self.reconciler.reconcile()


def running() -> Worker:
    worker = Worker()
    worker.configure(*configured())
    assert worker.assign("a", [T0, T1]) == ["start a STARTED", "start a-0 1", "start a-1 1"]
    assert worker.events == ["started a"]
    worker.events.clear()
    return worker


def test_assigned_instances_start_once() -> None:
    worker = running()
    worker.reconciler.reconcile()
    assert worker.run() == []


def test_revoked_instances_stop_and_leave_the_assignment() -> None:
    worker = running()
    assert worker.assign(revoked_tasks=(T1,)) == ["stop a-1"]
    assert worker.reconciler.held is not None
    assert (worker.reconciler.held.connectors, worker.reconciler.held.tasks) == (("a",), (T0,))


def test_reconciler_is_stopping_until_the_last_stop_has_finished() -> None:
    worker = running()
    worker.executor.hold_stops = True
    worker.assign(revoked_connectors=("a",))
    states = [worker.reconciler.is_stopping]
    worker.finish_stops()
    states.append(worker.reconciler.is_stopping)
    assert states == [True, False]
    assert worker.events == ["stopped a"]


def test_task_assigned_again_while_stopping_starts_after_the_stop() -> None:
    worker = running()
    worker.executor.hold_stops = True
    worker.assign(revoked_tasks=(T0,))
    assert worker.assign(tasks=[T0]) == []
    assert worker.finish_stops() == ["start a-0 1"]


def test_new_tasks_start_only_after_a_rebalance_that_has_seen_them() -> None:
    worker = running()
    worker.configure(*configured(number=2)[1:])
    worker.reconciler.tasks_changed("a", worker.state.offset)
    worker.reconciler.reconcile()
    assert worker.run() == ["stop a-0 a-1"]
    # An earlier rebalance: another worker may still run the old ones.
    assert worker.assign(offset=worker.state.offset - 1) == []
    assert worker.assign() == ["start a-0 2", "start a-1 2"]


def test_tasks_of_a_deleted_connector_stop() -> None:
    worker = running()
    worker.configure(ConnectorRecord("a", None))
    worker.reconciler.reconcile()
    assert worker.run() == ["stop a-0 a-1", "stop a"]
    assert worker.events == ["stopped a-0", "stopped a-1", "stopped a"]


def test_tasks_of_a_paused_connector_pause_and_new_ones_start_paused() -> None:
    worker = running()
    worker.configure(TargetStateRecord("a", TargetState.PAUSED))
    worker.reconciler.follow_target("a")
    assert worker.run() == ["PAUSED a", "pause a-0", "pause a-1"]
    worker.reconciler.stop_tasks([T1])
    worker.reconciler.reconcile()
    assert worker.run() == ["stop a-1", "start a-1 1 paused"]
    worker.configure(TargetStateRecord("a", TargetState.STARTED))
    worker.reconciler.follow_target("a")
    assert worker.run() == ["STARTED a", "resume a-0", "resume a-1"]
    assert worker.events[-1] == "started a"


def test_tasks_of_a_stopped_connector_do_not_run() -> None:
    worker = running()
    worker.configure(TargetStateRecord("a", TargetState.STOPPED))
    worker.reconciler.follow_target("a")
    worker.reconciler.reconcile()
    assert worker.run() == ["STOPPED a", "stop a-0 a-1"]


def test_eager_revocation_stops_everything_and_gives_up_the_assignment() -> None:
    worker = running()
    worker.reconciler.revoke_all()
    worker.reconciler.stop_all()
    worker.reconciler.reconcile()
    assert worker.run() == ["stop a-0 a-1", "stop a"]
    assert worker.reconciler.held is None


def test_removed_member_runs_nothing_and_restarts_what_the_next_rebalance_leaves_it() -> None:
    worker = running()
    worker.reconciler.suspend()
    worker.reconciler.stop_all()
    worker.reconciler.reconcile()
    assert worker.run() == ["stop a-0 a-1", "stop a"]
    assert worker.reconciler.held is not None
    assert worker.reconciler.held.tasks == (T0, T1)
    assert worker.assign(revoked_tasks=(T1,)) == ["start a STARTED", "start a-0 1"]


def test_incomplete_task_configurations_do_not_run() -> None:
    worker = Worker()
    worker.configure(ConnectorRecord("a", {"name": "a"}), TaskRecord(T0, {"n": "1"}), CommitRecord("a", 2))
    assert worker.assign("a", [T0, T1]) == ["start a STARTED"]


def test_start_overtaken_by_a_stop_does_not_happen() -> None:
    worker = Worker()
    worker.configure(*configured())
    worker.reconciler.assign(Assignment(VERSION, config_offset=worker.state.offset, tasks=(T0,)))
    worker.reconciler.reconcile()  # the configuration is being resolved
    worker.reconciler.stop_tasks([T0])
    worker.reconciler.revoke_all()
    assert worker.run() == ["stop a-0"]
