"""The connectors and tasks that a worker was asked to run, and the processes they run in."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field

from worker.executor import ConnectorSpec, TaskSpec
from worker.executors.placement import Load
from worker.executors.process_handle import ProcessHandle
from worker.model import State, TargetState, TaskId


@dataclass(slots=True, eq=False)
class ConnectorEntry:
    """A connector instance that was requested."""

    start_id: int
    spec: ConnectorSpec
    target: TargetState
    process: ProcessHandle | None = None
    """None before it is placed, and after its process has exited, until it restarts."""
    started: Future[None] = field(default_factory=Future)
    failed: bool = False
    version: str | None = None
    is_reconfiguration_due: bool = False
    """Its process exited while its task configs were requested: whoever requested them is to be notified after the restart."""

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(slots=True, eq=False)
class TaskEntry:
    """A task that was requested."""

    start_id: int
    spec: TaskSpec
    paused: bool
    process: ProcessHandle | None = None
    failed: bool = False
    version: str | None = None

    @property
    def name(self) -> str:
        """The name of its connector."""
        return self.spec.id.connector


Entry = ConnectorEntry | TaskEntry


class WorkRegistry:
    """Implements :class:`worker.executors.executor_requests.WorkLocator`.

    Hold ``lock`` to use the fields, and the methods above the marked line; those below it take the lock themselves.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.connectors: dict[str, ConnectorEntry] = {}
        self.tasks: dict[TaskId, TaskEntry] = {}
        self.stopping: set[Entry] = set()
        """No longer wanted, and not known to have ended: tasks among them still store their last offsets."""

    def entries(self) -> Iterator[Entry]:
        yield from self.connectors.values()
        yield from self.tasks.values()
        yield from self.stopping

    def in_process(self, process: ProcessHandle) -> list[Entry]:
        return [entry for entry in self.entries() if entry.process is process]

    def is_current(self, entry: Entry) -> bool:
        """Whether the entry was neither stopped nor replaced."""
        if isinstance(entry, ConnectorEntry):
            return self.connectors.get(entry.name) is entry
        return self.tasks.get(entry.spec.id) is entry

    def take_connector(self, name: str) -> ConnectorEntry | None:
        """Takes out a connector that is to be stopped; until that is done it counts as stopping."""
        entry = self.connectors.pop(name, None)
        if entry is not None:
            self.stopping.add(entry)
        return entry

    def take_tasks(self, tasks: Collection[TaskId]) -> list[TaskEntry]:
        """Takes out tasks that are to be stopped; until that is done they count as stopping."""
        taken = [self.tasks.pop(task) for task in tasks if task in self.tasks]
        self.stopping.update(taken)
        return taken

    def load_of(self, process: ProcessHandle | None, connector: str) -> Load:
        """What the process runs; None is a process that is not started."""
        if process is None:
            return Load(False, 0, 0, 0)
        tasks = [task for task in self.tasks.values() if task.process is process and not task.failed]
        own = sum(task.name == connector for task in tasks)
        instances = sum(entry.process is process for entry in self.connectors.values())
        return Load(True, len(tasks), own, instances)

    # --- what a process may speak for; these methods take the lock

    def is_connector_start(self, process: ProcessHandle, name: str, start_id: int) -> bool:
        with self.lock:
            entry = self.connectors.get(name)
            return entry is not None and entry.process is process and entry.start_id == start_id

    def is_task_start(self, process: ProcessHandle, task: TaskId, start_id: int) -> bool:
        with self.lock:
            current = self.tasks.get(task)
            candidates = [current, *(entry for entry in self.stopping if isinstance(entry, TaskEntry) and entry.spec.id == task)]
            return any(entry is not None and entry.process is process and entry.start_id == start_id for entry in candidates)

    def runs_in(self, process: ProcessHandle, connector: str) -> bool:
        with self.lock:
            return any(entry.process is process and entry.name == connector for entry in self.entries())

    def tasks_in(self, process: ProcessHandle) -> frozenset[TaskId]:
        """The tasks that are to run in this process."""
        with self.lock:
            return frozenset(task for task, entry in self.tasks.items() if entry.process is process)

    def record_connector_state(self, name: str, start_id: int, state: State, version: str | None) -> None:
        with self.lock:
            entry = self.connectors.get(name)
            if entry is not None and entry.start_id == start_id:
                entry.failed, entry.version = state is State.FAILED, version

    def record_task_state(self, task: TaskId, start_id: int, state: State, version: str | None) -> None:
        with self.lock:
            entry = self.tasks.get(task)
            # The last report of a run that is being stopped says nothing about the next run.
            if entry is not None and entry.start_id == start_id:
                entry.failed, entry.version = state is State.FAILED, version
