"""What a worker runs follows what it is assigned and what is configured, whatever takes its time meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any

from worker.distributed.assignment_reconciler import LocalWork
from worker.executor import ConnectorSpec, TaskSpec
from worker.group.protocol import Assignment
from worker.model import TargetState, TaskId
from worker.storage.config_state import ConfigState, apply
from worker.storage.record_codec import CommitRecord, ConfigRecord, ConnectorRecord, TargetStateRecord, TaskRecord

VERSION = 2


def done(result: Any = None) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


class FakeExecutor:
    """Notes what it is asked; stops take until the test says so."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.stops: list[Future[None]] = []
        self.hold_stops = False

    def start_connector(self, run: int, spec: ConnectorSpec, target: TargetState) -> Future[None]:
        self.asked.append(f"start {spec.name} {target.value}")
        return done()

    def set_connector_target(self, name: str, target: TargetState) -> Future[None]:
        self.asked.append(f"{target.value} {name}")
        return done()

    def stop_connector(self, name: str) -> Future[None]:
        self.asked.append(f"stop {name}")
        return self._stop()

    def start_task(self, run: int, spec: TaskSpec) -> None:
        self.asked.append(f"start {spec.id} {spec.config['n']}{' paused' if spec.paused else ''}")

    def set_task_paused(self, task: TaskId, paused: bool) -> None:
        self.asked.append(f"{'pause' if paused else 'resume'} {task}")

    def stop_tasks(self, tasks: Collection[TaskId]) -> Future[None]:
        self.asked.append(f"stop {' '.join(map(str, sorted(tasks)))}")
        return self._stop()

    def _stop(self) -> Future[None]:
        if not self.hold_stops:
            return done()
        self.stops.append(Future())
        return self.stops[-1]


class Worker:
    """A work, its jobs done at once, and the configuration it goes by. Implements WorkEvents."""

    def __init__(self) -> None:
        self.state = ConfigState()
        self.executor = FakeExecutor()
        self.jobs: deque[Callable[[], None]] = deque()
        self.told: list[str] = []
        self.prefix: str | None = None
        self.work = LocalWork(self.executor, self, self.jobs.append, lambda: self.state)  # type: ignore[arg-type]  # a fake

    def configure(self, *records: ConfigRecord) -> None:
        for record in records:
            self.state = apply(self.state, record, self.state.offset + 1).state

    def run(self) -> list[str]:
        """Does all jobs; what the executor was asked since the last look."""
        while self.jobs:
            self.jobs.popleft()()
        asked, self.executor.asked = self.executor.asked, []
        return asked

    def assign(self, connectors: str = "", tasks: Collection[TaskId] = (), **more: Any) -> list[str]:
        offset = more.pop("offset", self.state.offset)
        self.work.take(
            Assignment(VERSION, config_offset=offset, connectors=tuple(connectors.split()), tasks=tuple(tasks), **more)
        )
        self.work.reconcile()
        return self.run()

    def finish_stops(self) -> list[str]:
        stops, self.executor.stops = self.executor.stops, []
        for stop in stops:
            stop.set_result(None)
        return self.run()

    def spec(self, name: str, config: Mapping[str, str | None]) -> Future[ConnectorSpec]:
        given = {key: str(value) for key, value in config.items()}
        return done(ConnectorSpec(name, given, given))

    def before_tasks(self, name: str) -> Future[str | None]:
        return done(self.prefix)

    def connector_started(self, name: str) -> None:
        self.told.append(f"started {name}")

    def connector_stopped(self, name: str, *, for_good: bool) -> None:
        self.told.append(f"stopped {name}{' for good' if for_good else ''}")

    def tasks_stopped(self, tasks: Collection[TaskId]) -> None:
        self.told.extend(f"stopped {task}" for task in tasks)

    def connector_failed(self, name: str, run: int, error: BaseException) -> None:
        self.told.append(f"failed {name}: {error}")

    def tasks_failed(self, runs: Mapping[TaskId, int], error: BaseException) -> None:
        self.told.extend(f"failed {task}: {error}" for task in runs)

    def work_settled(self) -> None:
        self.work.reconcile()


T0, T1 = TaskId("a", 0), TaskId("a", 1)


def configured(tasks: int = 2, number: int = 1) -> list[ConfigRecord]:
    written = [TaskRecord(TaskId("a", n), {"n": str(number)}) for n in range(tasks)]
    return [ConnectorRecord("a", {"name": "a"}), *written, CommitRecord("a", tasks)]


def running() -> Worker:
    worker = Worker()
    worker.configure(*configured())
    assert worker.assign("a", [T0, T1]) == ["start a STARTED", "start a-0 1", "start a-1 1"]
    assert worker.told == ["started a"]
    worker.told.clear()
    return worker


def test_what_is_assigned_is_started_and_once() -> None:
    worker = running()
    worker.work.reconcile()
    assert worker.run() == []


def test_what_is_revoked_is_stopped_and_is_held_no_more() -> None:
    worker = running()
    assert worker.assign(revoked_tasks=(T1,)) == ["stop a-1"]
    assert worker.work.held is not None
    assert (worker.work.held.connectors, worker.work.held.tasks) == (("a",), (T0,))


def test_as_long_as_something_is_being_stopped_the_worker_must_not_join() -> None:
    worker = running()
    worker.executor.hold_stops = True
    worker.assign(revoked_connectors=("a",))
    assert worker.work.stopping
    worker.finish_stops()
    assert not worker.work.stopping
    assert worker.told == ["stopped a"]


def test_what_comes_back_while_it_is_being_stopped_starts_when_that_is_done() -> None:
    worker = running()
    worker.executor.hold_stops = True
    worker.assign(revoked_tasks=(T0,))
    assert worker.assign(tasks=[T0]) == []
    assert worker.finish_stops() == ["start a-0 1"]


def test_new_tasks_start_only_in_a_round_that_has_seen_them() -> None:
    worker = running()
    worker.configure(*configured(number=2)[1:])
    worker.work.tasks_changed("a", worker.state.offset)
    worker.work.reconcile()
    assert worker.run() == ["stop a-0 a-1"]
    # A round of before: another worker may still run the old ones.
    assert worker.assign(offset=worker.state.offset - 1) == []
    assert worker.assign() == ["start a-0 2", "start a-1 2"]


def test_tasks_of_a_connector_that_is_gone_are_stopped() -> None:
    worker = running()
    worker.configure(ConnectorRecord("a", None))
    worker.work.reconcile()
    assert worker.run() == ["stop a-0 a-1", "stop a"]
    assert worker.told == ["stopped a-0", "stopped a-1", "stopped a for good"]


def test_a_paused_connector_has_its_tasks_paused_and_new_ones_begin_so() -> None:
    worker = running()
    worker.configure(TargetStateRecord("a", TargetState.PAUSED))
    worker.work.follow_target("a")
    assert worker.run() == ["PAUSED a", "pause a-0", "pause a-1"]
    worker.work.stop_tasks([T1])
    worker.work.reconcile()
    assert worker.run() == ["stop a-1", "start a-1 1 paused"]
    worker.configure(TargetStateRecord("a", TargetState.STARTED))
    worker.work.follow_target("a")
    assert worker.run() == ["STARTED a", "resume a-0", "resume a-1"]
    assert worker.told[-1] == "started a"


def test_tasks_of_a_stopped_connector_do_not_run() -> None:
    worker = running()
    worker.configure(TargetStateRecord("a", TargetState.STOPPED))
    worker.work.follow_target("a")
    worker.work.reconcile()
    assert worker.run() == ["STOPPED a", "stop a-0 a-1"]


def test_in_the_eager_protocol_everything_stops_and_is_given_up() -> None:
    worker = running()
    worker.work.take_nothing()
    worker.work.stop_all()
    worker.work.reconcile()
    assert worker.run() == ["stop a-0 a-1", "stop a"]
    assert worker.work.held is None


def test_whoever_fell_out_of_the_group_runs_nothing_and_starts_what_the_next_round_leaves_it() -> None:
    worker = running()
    worker.work.suspend()
    worker.work.stop_all()
    worker.work.reconcile()
    assert worker.run() == ["stop a-0 a-1", "stop a"]
    assert worker.work.held is not None
    assert worker.work.held.tasks == (T0, T1)
    assert worker.assign(revoked_tasks=(T1,)) == ["start a STARTED", "start a-0 1"]


def test_incomplete_task_configurations_are_not_run() -> None:
    worker = Worker()
    worker.configure(ConnectorRecord("a", {"name": "a"}), TaskRecord(T0, {"n": "1"}), CommitRecord("a", 2))
    assert worker.assign("a", [T0, T1]) == ["start a STARTED"]


def test_a_start_that_was_overtaken_by_a_stop_does_not_happen() -> None:
    worker = Worker()
    worker.configure(*configured())
    worker.work.take(Assignment(VERSION, config_offset=worker.state.offset, tasks=(T0,)))
    worker.work.reconcile()  # the specification is being made
    worker.work.stop_tasks([T0])
    worker.work.take_nothing()
    assert worker.run() == ["stop a-0"]
