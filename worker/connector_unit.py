"""One connector on this worker: its instance, its tasks, their statuses, and the thread on which its code runs.

Every request (start, pause, restart, ...) is a job for the unit's own thread, in the order of arrival. So calls of one connector
never overlap, a connector that hangs holds up nobody else, and no lock is held while a plugin runs. Standalone and distributed
herders will both stand on this.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.connector import Connector, SinkConnector, SourceConnector
from connect.errors import ConfigError, ConnectError, IllegalStateError, NotFoundError
from worker.herder import ConnectorStatus, State, Status, TargetState, TaskId, TaskInfo, TaskProgress
from worker.log_context import log_context
from worker.offsets.store import ConnectorOffsetReader, OffsetStore
from worker.provided_values import ProvidedValues, with_references, with_values
from worker.secrets import SecretMask
from worker.stages import describe
from worker.task import WorkerTask
from worker.task_factory import TaskFactory, TaskRequest
from worker.trace import trace_of

T = TypeVar("T")

log = logging.getLogger(__name__)

_ENFORCE = "tasks.max.enforce"


@dataclass(frozen=True, slots=True)
class ConnectorDefinition:
    """What is to run: the configuration, and the class it names."""

    name: str
    given: Mapping[str, str] = field(repr=False)
    """As it was given, with references to config providers: what is shown."""
    config: Mapping[str, str] = field(repr=False)
    """With values in place of them, as they were when it was started last: what is used."""
    class_name: str
    """As REST shows it."""
    connector_class: type[Connector]
    type: str
    version: str | None

    @property
    def max_tasks(self) -> int:
        return int(self.config.get("tasks.max", "1"))


@dataclass(frozen=True, slots=True)
class UnitTools:
    """What a unit works with, the worker's own."""

    worker_id: str
    factory: TaskFactory
    store: OffsetStore
    values: ProvidedValues
    mask: SecretMask
    graceful_timeout_s: float


class _Context:
    """What the connector is given. Its calls come from any thread."""

    def __init__(self, unit: ConnectorUnit, reader: ConnectorOffsetReader) -> None:
        self._unit = unit
        self._reader = reader

    def request_task_reconfiguration(self) -> None:
        self._unit.submit(self._unit.reconfigure)

    def raise_error(self, error: Exception) -> None:
        self._unit.submit(lambda: self._unit.fail(error))

    def offset_reader(self) -> ConnectorOffsetReader:
        return self._reader


class ConnectorUnit:
    """Methods named as verbs run on the unit's thread, by :meth:`submit`; properties and snapshots are for any thread."""

    def __init__(self, definition: ConnectorDefinition, tools: UnitTools, target: TargetState) -> None:
        self.definition = definition
        self.target = target
        self._tools = tools
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"connector-{definition.name}", daemon=True)
        self._state = threading.Lock()  # for statuses and tasks; never held while a plugin runs
        self._status = Status(State.UNASSIGNED, tools.worker_id, version=definition.version)
        self._task_statuses: dict[int, Status] = {}
        self._task_configs: list[dict[str, str]] = []  # with references where the connector's configuration has them
        self._config_of_tasks: Mapping[str, str] = {}
        self._tasks: dict[int, WorkerTask] = {}
        self._connector: Connector | None = None
        self._started = False
        self._closing = False
        self._thread.start()

    # --- the thread

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Queues a job for the unit's thread."""
        future: Future[T] = Future()
        if self._closing:
            future.set_exception(IllegalStateError(f"Connector {self.definition.name} is being removed"))
        else:
            self._jobs.put((job, future))
        return future

    def _work(self) -> None:
        with log_context(self.definition.name):
            while (item := self._jobs.get()) is not None:
                job, future = item
                try:
                    future.set_result(job())
                except BaseException as e:
                    future.set_exception(e)

    def shut_down(self) -> Future[None]:
        """Stops everything for good; the thread ends after it. Jobs submitted later are refused."""
        done = self.submit(self._stop_all)
        self._closing = True
        self._jobs.put(None)
        return done

    def join(self, deadline: float) -> bool:
        """Waits for the thread until ``time.monotonic()`` is ``deadline``; False when a plugin still holds it."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        return not self._thread.is_alive()

    def abandon(self) -> None:
        """From another thread, when the unit's own hangs in a plugin: cuts its tasks off."""
        for task in self._running_tasks():
            task.stop()
            task.cancel()

    # --- jobs

    def start(self) -> None:
        """Brings connector and tasks into the target state. Raises what made the connector fail; its status says so too."""
        if self.target is TargetState.STOPPED:
            self._set_status(State.STOPPED)
            return
        if self.target is TargetState.PAUSED:
            # As in Apache's worker: a connector born paused has no tasks until it is resumed.
            self._set_status(State.PAUSED)
            return
        self._start_connector()
        self.reconfigure()

    def follow_target(self, target: TargetState) -> None:
        """Pauses, resumes or stops."""
        self.target = target
        match target:
            case TargetState.STARTED:
                if self._status.state is not State.RUNNING:
                    self._start_connector()
                if self._task_configs:
                    for task in self._running_tasks():
                        task.control.set_paused(False)
                self.reconfigure()
            case TargetState.PAUSED:
                for task in self._running_tasks():
                    task.control.set_paused(True)
                self._stop_connector()
                if self._status.state is not State.FAILED:
                    self._set_status(State.PAUSED)
            case TargetState.STOPPED:
                self._stop_tasks()
                with self._state:
                    self._task_configs = []
                    self._task_statuses = {}
                self._stop_connector()
                self._set_status(State.STOPPED)

    def reconfigure(self) -> None:
        """Asks the connector for its tasks, and replaces the running ones when they changed."""
        if self.target is not TargetState.STARTED or not self._started or self._connector is None:
            return
        try:
            configs = self._generated_task_configs(self._connector)
        except Exception as e:
            self.fail(e)
            raise
        # Tasks also take converters, transformations and client settings from the connector's configuration, so that another
        # value of a config provider is a change for all of them.
        if configs != self._task_configs or self.definition.config != self._config_of_tasks:
            self._stop_tasks()
            with self._state:
                self._task_configs = configs
                self._config_of_tasks = self.definition.config
                self._task_statuses = {}
            for number in range(len(configs)):
                self._start_task(number)

    def change(self, definition: ConnectorDefinition, target: TargetState | None) -> None:
        """Takes a new configuration: everything is started anew, in the state it had."""
        self._stop_tasks()
        self._stop_connector()
        self._connector = None
        self.definition = definition
        if target is not None:
            self.target = target
        with self._state:
            self._task_configs = []
            self._task_statuses = {}
        self.start()

    def restart(self, *, with_connector: bool, tasks: Collection[int]) -> None:
        """Restarts the instance and these tasks. Raises what made the connector fail."""
        self._look_up_values()
        for number in tasks:
            self._set_task_status(number, State.RESTARTING)
        self._stop_tasks(tasks)
        if with_connector:
            self._set_status(State.RESTARTING)
            self._stop_connector()
            self._connector = None
            if self.target is TargetState.STARTED:
                self._start_connector(values_are_fresh=True)
            else:
                self._set_status(State.PAUSED if self.target is TargetState.PAUSED else State.STOPPED)
        for number in tasks:
            if number < len(self._task_configs):
                self._start_task(number)
        if with_connector:
            self.reconfigure()

    def reload(self, *, only_if_changed: bool) -> None:
        """Values of config providers have run out: looks them up again and restarts the connector, or with ``only_if_changed``
        does so when they are others.

        A connector that is not to run looks its values up when it is started. When a provider does not answer, what runs goes
        on, and the provider is asked again when as much time has passed once more.
        """
        definition = self.definition
        if self.target is not TargetState.STARTED:
            return
        try:
            config = self._tools.values.for_start(definition.name, definition.given, again=True)
        except ConfigError as e:
            log.warning("Connector %s goes on with the values it has: %s", definition.name, e.message)
            self._tools.values.ask_again(definition.name)
            return
        # A task that was restarted alone may have made the values known that the other tasks do not have yet.
        tasks_have_them = not self._task_configs or config == self._config_of_tasks
        if only_if_changed and config == definition.config and tasks_have_them:
            return
        log.info("Connector %s is restarted for new values of its config providers", definition.name)
        self.restart(with_connector=True, tasks=())

    def restart_task(self, number: int) -> None:
        """Restarts one task. Raises NotFoundError when there is none of that number."""
        if not 0 <= number < len(self._task_configs):
            raise NotFoundError(f"Task {TaskId(self.definition.name, number)} not found")
        self._look_up_values()
        self._stop_tasks([number])
        self._start_task(number)

    def fail(self, error: BaseException) -> None:
        """The connector has failed. Its tasks go on, as in Apache's worker."""
        log.error("Connector %s failed: %s", self.definition.name, describe(error), exc_info=error)
        self._set_status(State.FAILED, error)

    def _stop_all(self) -> None:
        self._stop_tasks()
        self._stop_connector()

    # --- connector

    def _look_up_values(self) -> None:
        """Before anything is started: values of config providers may have changed since. Raises ConfigError when one does not
        answer; what runs goes on."""
        definition = self.definition
        config = self._tools.values.for_start(definition.name, definition.given)
        self.definition = replace(definition, config=config)

    def _start_connector(self, *, values_are_fresh: bool = False) -> None:
        tools = self._tools
        try:
            if not values_are_fresh:
                self._look_up_values()
            definition = self.definition
            if self._connector is None:
                connector = definition.connector_class()
                connector.initialize(_Context(self, ConnectorOffsetReader(tools.store, definition.name)))
                self._connector = connector
            self._connector.start(definition.config)
        except Exception as e:
            self.fail(e)
            raise
        self._started = True
        self._set_status(State.RUNNING)
        log.info("Connector %s started", definition.name)

    def _stop_connector(self) -> None:
        if self._connector is not None and self._started:
            try:
                self._connector.stop()
            except Exception:
                log.exception("stop() of connector %s failed", self.definition.name)
        self._started = False

    def _generated_task_configs(self, connector: Connector) -> list[dict[str, str]]:
        definition = self.definition
        configs = connector.task_configs(definition.max_tasks)
        if len(configs) > definition.max_tasks:
            text = (
                f"The connector {definition.name} has generated {len(configs)} tasks, which is greater than "
                f"{definition.max_tasks}, the maximum number of tasks it is configured to create."
            )
            if parse_value(_ENFORCE, definition.config.get(_ENFORCE, "true"), ConfigType.BOOLEAN):
                raise ConnectError(text)
            log.warning("%s They are started all the same, for %s=false", text, _ENFORCE)
        added = {"task.class": _shown_task_class(definition, connector.task_class())}
        if issubclass(definition.connector_class, SinkConnector):
            added |= {key: definition.config[key] for key in ("topics", "topics.regex") if definition.config.get(key)}
        return [with_references({**config, **added}, definition.given, definition.config) for config in configs]

    # --- tasks

    def _start_task(self, number: int) -> None:
        definition, connector = self.definition, self._connector
        if connector is None:
            connector = definition.connector_class()
        assert issubclass(definition.connector_class, SourceConnector | SinkConnector)
        request = TaskRequest(
            TaskId(definition.name, number),
            definition.connector_class,
            connector.task_class(),
            definition.config,
            with_values(self._task_configs[number], definition.given, definition.config),
            definition.version,
            self.target is TargetState.PAUSED,
        )
        task = self._tools.factory.create(request, self)
        with self._state:
            self._tasks[number] = task
            self._task_statuses[number] = Status(State.UNASSIGNED, self._tools.worker_id, version=definition.version)
        task.start()

    def _stop_tasks(self, numbers: Collection[int] | None = None) -> None:
        """Stops tasks side by side; those that take longer than they are given are cut off."""
        with self._state:
            chosen = {n: t for n, t in self._tasks.items() if numbers is None or n in numbers}
        for task in chosen.values():
            task.stop()
        deadline = time.monotonic() + self._tools.graceful_timeout_s
        for task in chosen.values():
            if not task.join(deadline):
                task.cancel()
        with self._state:
            for number, task in chosen.items():
                if self._tasks.get(number) is task:
                    del self._tasks[number]

    def _running_tasks(self) -> list[WorkerTask]:
        with self._state:
            return list(self._tasks.values())

    # --- what tasks tell (worker.task.TaskListener), on their threads

    def on_running(self, task: WorkerTask) -> None:
        self._task_says(task, State.RUNNING)

    def on_paused(self, task: WorkerTask) -> None:
        self._task_says(task, State.PAUSED)

    def on_failed(self, task: WorkerTask, error: BaseException) -> None:
        log.error("Task %s failed: %s", task.id, describe(error), exc_info=error)
        self._task_says(task, State.FAILED, error)

    def on_ended(self, task: WorkerTask) -> None:
        self._task_says(task, State.UNASSIGNED)

    def _task_says(self, task: WorkerTask, state: State, error: BaseException | None = None) -> None:
        trace = None if error is None else trace_of(error, self._tools.mask)
        with self._state:
            # What a task says that was replaced or removed meanwhile counts no more.
            if self._tasks.get(task.id.task) is task:
                self._task_statuses[task.id.task] = Status(state, self._tools.worker_id, trace, version=task.version)

    def _set_task_status(self, number: int, state: State) -> None:
        with self._state:
            if number in self._task_statuses:
                self._task_statuses[number] = replace(self._task_statuses[number], state=state)

    def _set_status(self, state: State, error: BaseException | None = None) -> None:
        trace = None if error is None else trace_of(error, self._tools.mask)
        with self._state:
            self._status = Status(state, self._tools.worker_id, trace, version=self.definition.version)

    # --- snapshots, for any thread

    def status(self) -> ConnectorStatus:
        with self._state:
            return ConnectorStatus(self.definition.name, self._status, sorted(self._task_statuses.items()), self.definition.type)

    def task_infos(self) -> list[TaskInfo]:
        with self._state:
            return [TaskInfo(TaskId(self.definition.name, n), dict(c)) for n, c in enumerate(self._task_configs)]

    def progress(self, number: int) -> TaskProgress | None:
        with self._state:
            task = self._tasks.get(number)
        return None if task is None else _masked_progress(task.progress(), self._tools.mask)


def _masked_progress(progress: TaskProgress | None, mask: SecretMask) -> TaskProgress | None:
    """What a connector tells about itself is its author's text: secrets are taken out (promise 9)."""
    if progress is None or not progress.details:
        return progress
    return replace(progress, details=_masked(progress.details, mask))


def _masked(value: Any, mask: SecretMask) -> Any:
    match value:
        case str():
            return mask.mask(value)
        case Mapping():
            return {key: _masked(member, mask) for key, member in value.items()}
        case list() | tuple():
            return [_masked(member, mask) for member in value]
        case _:
            return value


def _shown_task_class(definition: ConnectorDefinition, task_class: type) -> str:
    """Apache's own connectors and their tasks are named alike; others show their Python path."""
    name = definition.class_name
    if name.startswith("org.apache.kafka.connect.") and name.endswith("Connector"):
        return f"{name.removesuffix('Connector')}Task"
    return f"{task_class.__module__}:{task_class.__qualname__}"
