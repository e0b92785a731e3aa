"""A distributed worker without a broker: its parts over fakes of the group, the config topic, the executor, and time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from connect.errors import UnreachableError
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.distributed.assignment_reconciler import AssignmentReconciler
from worker.distributed.auto_restart import FailedInstances
from worker.distributed.config_sync import ConfigSync
from worker.distributed.group_session import GroupSession
from worker.distributed.instance_events import ExecutorReports, InstanceEventHandler
from worker.distributed.local_instances import LocalInstances
from worker.distributed.local_restarts import LocalRestarts
from worker.distributed.rebalances import RebalanceHandler
from worker.distributed.status_writer import StatusWriter
from worker.executor import ConnectorSpec, TaskSpec
from worker.group.events import Assigned
from worker.group.protocol import Assignment, Protocol
from worker.model import ConnectorStatus, Status, TargetState, TaskId
from worker.operations.auto_restart import AutoRestart
from worker.storage.config_state import ConfigState, apply
from worker.storage.record_codec import CommitRecord, ConfigRecord, ConnectorRecord, DocumentKind, TaskRecord

PROPS = {
    "bootstrap.servers": "localhost:1",
    "group.id": "g",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}
VERSION = 2
T0, T1 = TaskId("a", 0), TaskId("a", 1)


def configured(tasks: int = 2, number: int = 1) -> list[ConfigRecord]:
    """Records of connector a with tasks."""
    written = [TaskRecord(TaskId("a", n), {"n": str(number)}) for n in range(tasks)]
    return [ConnectorRecord("a", {"name": "a"}), *written, CommitRecord("a", tasks)]


def done(result: Any = None) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


@dataclass
class ManualLoop:
    """Runs jobs in the order of their due times when the test advances the time."""

    now: float = 0.0
    jobs: list[tuple[float, Callable[[], Any]]] = field(default_factory=list)

    def post(self, job: Callable[[], Any], delay_s: float = 0.0) -> None:
        self.jobs.append((self.now + delay_s, job))

    def run(self, seconds: float = 0.0) -> None:
        self._run_due()
        self.now += seconds
        self._run_due()

    def _run_due(self) -> None:
        while due := sorted((one for one in self.jobs if one[0] <= self.now), key=lambda one: one[0]):
            self.jobs.remove(due[0])
            due[0][1]()

    def wake(self) -> None: ...

    def doing(self, description: str) -> AbstractContextManager[None]:
        return nullcontext()


class FakeStore:
    """A config topic. ``unread`` is what a refresh reads; without a broker refreshing fails."""

    def __init__(self) -> None:
        self.state = ConfigState()
        self.unread: list[ConfigRecord] = []
        self.is_reachable = True

    def configure(self, *records: ConfigRecord) -> None:
        for record in records:
            self.state = apply(self.state, record, self.state.offset + 1).state

    def snapshot(self) -> ConfigState:
        return self.state

    def refresh(self, timeout_s: float) -> None:
        if not self.is_reachable:
            raise UnreachableError("no broker")
        unread, self.unread = self.unread, []
        self.configure(*unread)


class FakeMember:
    """A group member that records what the herder does with it."""

    def __init__(self) -> None:
        self.is_joining = False
        self.joining_since: float | None = None
        self.calls: list[str] = []
        self.is_confirmed = True

    def poll(self, timeout_s: float) -> None:
        self.calls.append("poll")

    def work_stopped(self) -> None:
        self.calls.append("work_stopped")

    def request_rejoin(self, reason: str) -> None:
        self.is_joining = True
        self.calls.append(f"rejoin: {reason}")

    def leave(self, reason: str) -> None:
        self.calls.append("leave")

    def confirm(self, timeout_s: float) -> bool:
        return self.is_confirmed


class FakeExecutor:
    """Records requests; with ``hold_stops`` stops finish when the test says so."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.stops: list[Future[None]] = []
        self.hold_stops = False

    def start_connector(self, start_id: int, spec: ConnectorSpec, target: TargetState) -> Future[None]:
        self.requests.append(f"start {spec.name} {target.value}")
        return done()

    def set_connector_target(self, name: str, target: TargetState) -> Future[None]:
        self.requests.append(f"{target.value} {name}")
        return done()

    def stop_connector(self, name: str) -> Future[None]:
        self.requests.append(f"stop {name}")
        return self._stop()

    def start_task(self, start_id: int, spec: TaskSpec) -> None:
        self.requests.append(f"start {spec.id} {spec.config['n']}{' paused' if spec.paused else ''}")

    def set_task_paused(self, task: TaskId, paused: bool) -> None:
        self.requests.append(f"{'pause' if paused else 'resume'} {task}")

    def stop_tasks(self, tasks: Collection[TaskId]) -> Future[None]:
        self.requests.append(f"stop {' '.join(map(str, sorted(tasks)))}")
        return self._stop()

    def _stop(self) -> Future[None]:
        if not self.hold_stops:
            return done()
        self.stops.append(Future())
        return self.stops[-1]


class FakeStatusStore:
    """A status topic in memory."""

    def documents(self, kind: DocumentKind) -> dict[str, Any]:
        return {}

    def __init__(self) -> None:
        self.statuses: dict[str | TaskId, Status] = {}
        self.written: list[tuple[str | TaskId, str]] = []

    def put(self, instance: str | TaskId, status: Status) -> None:
        self.statuses[instance] = status
        self.written.append((instance, status.state.value))

    put_safe = put

    def get(self, instance: str | TaskId) -> Status | None:
        return self.statuses.get(instance)

    def get_all(self, connector: str) -> dict[int, Status]:
        found = self.statuses.items()
        return {task.task: status for task, status in found if isinstance(task, TaskId) and task.connector == connector}

    def connector_statuses(self, connectors: Iterable[str]) -> list[ConnectorStatus]:
        found = [(name, self.get(name)) for name in connectors]
        return [ConnectorStatus(name, one, sorted(self.get_all(name).items()), "unknown") for name, one in found if one]

    def connectors(self) -> frozenset[str]:
        return frozenset()


class FakeWorker:
    """The parts of the herder's thread, connected as in bootstrap."""

    def __init__(self, **props: str) -> None:
        config = WorkerConfig.for_cluster({**PROPS, **{key.replace("_", "."): value for key, value in props.items()}})
        settings = config.distributed
        assert settings is not None
        self.loop = ManualLoop()
        loop = cast(Any, self.loop)
        self.store = FakeStore()
        self.member = FakeMember()
        self.executor = FakeExecutor()
        self.status_store = FakeStatusStore()
        self.leads: list[str] = []
        self.resolve = resolve
        self.config = ConfigSync(cast(Any, self.store), loop, 1.0)
        self.instances = LocalInstances()
        self.group = GroupSession(cast(Any, self.member), loop, self.config)
        auto_restart = AutoRestart(config, lambda *_: None)
        self.failed = FailedInstances(auto_restart, self.config, self.instances)
        status_store = cast(Any, self.status_store)
        self.statuses = StatusWriter(status_store, "here:1", SecretMask(), self.failed, tracks_topics=False)
        self.reports = ExecutorReports(loop, self.config, self.instances, self.statuses, None, lambda name: None)
        events = InstanceEventHandler(self.statuses, lambda name: None, lambda: self.rebalances.stop_finished())
        self.reconciler = AssignmentReconciler(
            cast(Any, self.executor),
            self.instances,
            events,
            self.resolve,
            lambda name: done(),
            loop.post,
            lambda: self.config.state,
        )
        self.restarts = LocalRestarts(loop, self.instances, self.reconciler, self.statuses, 5.0)
        leader = SimpleNamespace(take_over=lambda: self.leads.append("take over"), resign=lambda: self.leads.append("resign"))
        keys = SimpleNamespace(renew_if_due=lambda: None)
        publisher = SimpleNamespace(rebalanced=lambda: None)
        self.rebalances = RebalanceHandler(
            settings,
            loop,
            self.config,
            self.group,
            self.reconciler,
            cast(Any, leader),
            cast(Any, keys),
            self.statuses,
            cast(Any, publisher),
        )

    def assign(self, connectors: str = "", tasks: Collection[TaskId] = (), **more: Any) -> None:
        """Ends a rebalance with this assignment, by a leader elsewhere unless ``leader`` is given."""
        self.member.is_joining = False
        offset, leader = more.pop("config_offset", self.store.state.offset), more.pop("leader", "other")
        assignment = Assignment(
            VERSION, leader=leader, config_offset=offset, connectors=tuple(connectors.split()), tasks=tuple(tasks), **more
        )
        self.rebalances.on_group_event(Assigned(1, "me", leader, Protocol.SESSIONED, assignment))

    def run(self, seconds: float = 0.0) -> list[str]:
        """Runs due jobs. Returns the new requests to the executor."""
        self.loop.run(seconds)
        requests, self.executor.requests = self.executor.requests, []
        return requests

    def finish_stops(self) -> list[str]:
        stops, self.executor.stops = self.executor.stops, []
        for stop in stops:
            stop.set_result(None)
        return self.run()

    def group_calls(self) -> list[str]:
        """Returns the calls of the group member since the last look."""
        calls, self.member.calls = self.member.calls, []
        return calls


def resolve(name: str, config: Mapping[str, str | None]) -> Future[ConnectorSpec]:
    given = {key: str(value) for key, value in config.items()}
    return done(ConnectorSpec(name, given, given))
