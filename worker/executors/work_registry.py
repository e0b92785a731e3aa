"""The connectors and tasks of a worker, and the processes they are in."""

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
    """An instance that was asked for."""

    run: int
    spec: ConnectorSpec
    target: TargetState
    home: ProcessHandle | None = None
    """None before it is placed, and when its process has ended and it is not started anew."""
    started: Future[None] = field(default_factory=Future)
    failed: bool = False
    version: str | None = None
    wants_to_tell_tasks: bool = False
    """Its process ended while it was asked for its tasks."""

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(slots=True, eq=False)
class TaskEntry:
    """A task that was asked for."""

    run: int
    spec: TaskSpec
    paused: bool
    home: ProcessHandle | None = None
    failed: bool = False
    version: str | None = None

    @property
    def name(self) -> str:
        """Of its connector."""
        return self.spec.id.connector


Entry = ConnectorEntry | TaskEntry


class Register:
    """Implements :class:`worker.executors.executor_requests.Residents`. Its fields are for who holds the lock."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.connectors: dict[str, ConnectorEntry] = {}
        self.tasks: dict[TaskId, TaskEntry] = {}
        self.stopping: set[Entry] = set()
        """Not wanted any more, and not known to have ended: tasks among them still store their last offsets."""

    def entries(self) -> Iterator[Entry]:
        yield from self.connectors.values()
        yield from self.tasks.values()
        yield from self.stopping

    def of_home(self, handle: ProcessHandle) -> list[Entry]:
        return [entry for entry in self.entries() if entry.home is handle]

    def is_current(self, entry: Entry) -> bool:
        """Whether it is still wanted."""
        if isinstance(entry, ConnectorEntry):
            return self.connectors.get(entry.name) is entry
        return self.tasks.get(entry.spec.id) is entry

    def take_connector(self, name: str) -> ConnectorEntry | None:
        """It is to be stopped: from now on it counts as stopping."""
        entry = self.connectors.pop(name, None)
        if entry is not None:
            self.stopping.add(entry)
        return entry

    def take_tasks(self, tasks: Collection[TaskId]) -> list[TaskEntry]:
        """The same for tasks."""
        taken = [self.tasks.pop(task) for task in tasks if task in self.tasks]
        self.stopping.update(taken)
        return taken

    def load_of(self, handle: ProcessHandle | None, connector: str) -> Load:
        if handle is None:
            return Load(False, 0, 0, 0)
        tasks = [task for task in self.tasks.values() if task.home is handle and not task.failed]
        own = sum(task.name == connector for task in tasks)
        instances = sum(entry.home is handle for entry in self.connectors.values())
        return Load(True, len(tasks), own, instances)

    # --- what processes are held to

    def is_connector_run(self, handle: ProcessHandle, name: str, run: int) -> bool:
        with self.lock:
            entry = self.connectors.get(name)
            return entry is not None and entry.home is handle and entry.run == run

    def is_task_run(self, handle: ProcessHandle, task: TaskId, run: int) -> bool:
        with self.lock:
            current = self.tasks.get(task)
            candidates = [current, *(entry for entry in self.stopping if isinstance(entry, TaskEntry) and entry.spec.id == task)]
            return any(entry is not None and entry.home is handle and entry.run == run for entry in candidates)

    def lives_in(self, handle: ProcessHandle, connector: str) -> bool:
        with self.lock:
            return any(entry.home is handle and entry.name == connector for entry in self.entries())

    def note_connector(self, name: str, run: int, state: State, version: str | None) -> None:
        with self.lock:
            entry = self.connectors.get(name)
            if entry is not None and entry.run == run:
                entry.failed, entry.version = state is State.FAILED, version

    def note_task(self, task: TaskId, run: int, state: State, version: str | None) -> None:
        with self.lock:
            entry = self.tasks.get(task)
            # The last words of a run that is being stopped say nothing of the one after it.
            if entry is not None and entry.run == run:
                entry.failed, entry.version = state is State.FAILED, version
