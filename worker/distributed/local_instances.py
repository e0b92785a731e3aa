"""The connectors and tasks that were asked to start on this worker. Owned by the herder's thread."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count

from worker.executors.futures import fail, pass_on
from worker.model import TargetState, TaskId

Instance = str | TaskId
"""A connector by its name, or a task."""


def connector_of(instance: Instance) -> str:
    """Returns the name of the connector that an instance belongs to."""
    return instance if isinstance(instance, str) else instance.connector


@dataclass(frozen=True, slots=True)
class StartedWith:
    """The configurations with values of config providers that an instance was started with. Never printed (promise 9)."""

    connector: Mapping[str, str] = field(repr=False)
    own: Mapping[str, str] = field(repr=False)
    """A task's own configuration; the connector's for a connector."""


@dataclass(slots=True)
class RunningConnector:
    """An instance that was asked to start."""

    start_id: int
    target: TargetState
    started: Future[None] = field(default_factory=Future)
    """Done when the start was; has the error when it failed."""
    values: StartedWith | None = None
    """None before the start, and without references to config providers."""


@dataclass(slots=True)
class RunningTask:
    """A task that was asked to start."""

    start_id: int
    generation: int | None
    """Of the connector's task configurations."""
    started: Future[None] = field(default_factory=Future)
    values: StartedWith | None = None


class LocalInstances:
    """The registry of what runs. A run number is never reused."""

    def __init__(self) -> None:
        self.connectors: dict[str, RunningConnector] = {}
        self.tasks: dict[TaskId, RunningTask] = {}
        self._runs = count(1)
        self._latest_start_ids: dict[Instance, int] = {}
        self._awaited: dict[Instance, list[Future[None]]] = {}
        self._refusal: Exception | None = None

    def add_connector(self, name: str, target: TargetState) -> RunningConnector:
        """Registers a new run of a connector."""
        running = self.connectors[name] = RunningConnector(next(self._runs), target)
        self._added(name, running)
        return running

    def add_tasks(self, tasks: Collection[TaskId], generation: int | None) -> dict[TaskId, RunningTask]:
        """Registers new runs of tasks."""
        added = {task: RunningTask(next(self._runs), generation) for task in tasks}
        self.tasks.update(added)
        for task, running in added.items():
            self._added(task, running)
        return added

    def _added(self, instance: Instance, running: RunningConnector | RunningTask) -> None:
        self._latest_start_ids[instance] = running.start_id
        for waiting in self._awaited.pop(instance, ()):
            pass_on(running.started, waiting, lambda _: None)

    def find(self, instance: Instance) -> RunningConnector | RunningTask | None:
        return self.connectors.get(instance) if isinstance(instance, str) else self.tasks.get(instance)

    def is_latest(self, instance: Instance, start_id: int) -> bool:
        """Whether this is the last run of a connector or task here, ended or not."""
        return self._latest_start_ids.get(instance) == start_id

    def is_running(self, instance: Instance, start_id: int) -> bool:
        """Whether this run was asked to start and has not been asked to stop since."""
        running = self.find(instance)
        return running is not None and running.start_id == start_id

    def has_tasks_of(self, name: str) -> bool:
        return any(task.connector == name for task in self.tasks)

    def await_start(self, instance: Instance) -> Future[None]:
        """Returns a future of the current start of an instance or, if it does not run, of the next one."""
        outcome: Future[None] = Future()
        running = self.find(instance)
        if running is not None:
            pass_on(running.started, outcome, lambda _: None)
        elif self._refusal is not None:
            fail(outcome, self._refusal)
        else:
            self._awaited.setdefault(instance, []).append(outcome)
        return outcome

    def cancel_awaited(self, instance: Instance, outcome: Future[None], error: Exception) -> None:
        """Fails a future of :meth:`await_start` if its start has not been requested yet."""
        waiting = self._awaited.get(instance, [])
        if outcome in waiting:
            waiting.remove(outcome)
            fail(outcome, error)

    def refuse_awaiting(self, error: Exception) -> None:
        """Fails all present and future :meth:`await_start` of instances that do not run, because nothing starts any more."""
        self._refusal = error
        awaited, self._awaited = self._awaited, {}
        for outcomes in awaited.values():
            for outcome in outcomes:
                fail(outcome, error)
