"""One connector of a standalone worker: what is requested of it, and the order in which it happens.

Its code runs in an :class:`worker.executor.Executor`. Every request (start, pause, restart, ...) is a job in the connector's own
queue: it asks the executor and waits for the result. A connector that hangs blocks no other, and no lock is held while a plugin
runs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TypeVar

from connect.errors import ConfigError, IllegalStateError, NotFoundError
from worker.config.resolved_config import ResolvedConfigs, restore_values
from worker.config.secrets import SecretMask
from worker.error_text import describe
from worker.errors.trace import trace_of
from worker.executor import ConnectorFacts, ConnectorSpec, Executor, TaskSpec
from worker.executors.deadlines import Deadlines
from worker.executors.futures import failed
from worker.executors.serial_queue import SerialQueue
from worker.model import ConnectorStatus, Stall, State, TargetState, TaskId
from worker.operations.auto_restart import AutoRestart
from worker.standalone.connector_state import ConnectorState

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectorDefinition:
    """A connector's configuration, and the facts of its class."""

    name: str
    given: Mapping[str, str] = field(repr=False)
    """The configuration with references to config providers, as it is shown."""
    config: Mapping[str, str] = field(repr=False)
    """The configuration with values, as of the last start."""
    facts: ConnectorFacts

    @property
    def spec(self) -> ConnectorSpec:
        return ConnectorSpec(self.name, self.given, self.config)


@dataclass(frozen=True, slots=True)
class ConnectorDependencies:
    """What the connectors of a worker share."""

    worker_id: str
    executor: Executor
    values: ResolvedConfigs
    mask: SecretMask
    next_start_id: Callable[[], int]
    auto_restart: AutoRestart
    deadlines: Deadlines = field(default_factory=Deadlines)


class StandaloneConnector:
    """Methods named as verbs run in the connector's queue, by :meth:`submit`. Any thread may call the others: attributes,
    :meth:`status`, and methods that begin with ``on_``."""

    def __init__(self, definition: ConnectorDefinition, dependencies: ConnectorDependencies, target: TargetState) -> None:
        self.definition = definition
        self.target = target
        self.state = ConnectorState(definition.name, dependencies.worker_id, definition.facts.version)
        self._executor = dependencies.executor
        self._values = dependencies.values
        self._mask = dependencies.mask
        self._next_start_id = dependencies.next_start_id
        self._auto_restart = dependencies.auto_restart
        self._queue = SerialQueue(f"requests-{definition.name}", definition.name, dependencies.deadlines)
        self._starting = threading.Lock()
        """Held while an instance is handed to the executor, so that none starts after :meth:`shut_down`."""
        self._placed: ConnectorSpec | None = None  # the instance that the executor has
        self._start_id: int | None = None
        self._closing = False

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Queues a job."""
        if self._closing:
            return failed(self._removed())
        return self._queue.submit(job)

    def _removed(self) -> IllegalStateError:
        return IllegalStateError(f"Connector {self.definition.name} is being removed")

    def shut_down(self) -> Future[None]:
        """Stops everything for good, whatever the queue is doing. Later jobs are refused. The future is done when all instances
        have ended or were abandoned."""
        executor, name = self._executor, self.definition.name
        ended: Future[None] = Future()

        def stop_connector(_: Future[None]) -> None:
            executor.stop_connector(name).add_done_callback(lambda _: ended.set_result(None))

        with self._starting:
            self._closing = True
            tasks = self._task_ids(self.state.running_tasks())
        executor.stop_tasks(tasks).add_done_callback(stop_connector)
        return ended

    # --- jobs

    def start(self) -> None:
        """Brings connector and tasks into the target state. Raises what made the connector fail; its status shows it too."""
        if self.target is TargetState.STOPPED:
            self._set_state(State.STOPPED)
            return
        if self.target is TargetState.PAUSED:
            # As in Apache's worker: a connector that is created paused has no tasks until it is resumed.
            self._set_state(State.PAUSED)
            return
        self._start_connector()
        self.reconfigure()

    def follow_target(self, target: TargetState) -> None:
        """Pauses, resumes, or stops."""
        self.target = target
        self._auto_restart.reset(self.definition.name)
        match target:
            case TargetState.STARTED:
                if self.state.state is not State.RUNNING:
                    self._start_connector()
                self._pause_tasks(False)
                self.reconfigure()
                self._schedule_restarts()
            case TargetState.PAUSED:
                self._pause_tasks(True)
                self._set_connector_target(target)
                if self.state.state is not State.FAILED:
                    self._set_state(State.PAUSED)
            case TargetState.STOPPED:
                self._stop_tasks()
                self.state.clear_tasks()
                self._set_connector_target(target)
                self._set_state(State.STOPPED)

    def reconfigure(self) -> None:
        """Requests the connector's task configurations, and replaces the running tasks if they changed."""
        if self.target is not TargetState.STARTED or self._placed is None:
            return
        try:
            configs = self._executor.task_configs(self.definition.name).result()
        except IllegalStateError:
            if self.state.state is State.FAILED:
                raise
            return  # it is not started
        # Tasks also take converters, transformations, and client settings from the connector's configuration, so a new value of a
        # config provider changes all of them.
        if not self.state.has_tasks(configs, self.definition.config):
            self._stop_tasks()
            self.state.set_tasks(configs, self.definition.config)
            for number in range(len(configs)):
                self._start_task(number)

    def reconfigure_if_current(self, start_id: int) -> None:
        """Calls :meth:`reconfigure` if the instance that requested it still runs."""
        if start_id == self._start_id and self._placed is not None:
            self.reconfigure()

    def change(self, definition: ConnectorDefinition, target: TargetState | None) -> None:
        """Restarts everything with a new configuration, in its current state or in ``target``."""
        self._auto_restart.reset(self.definition.name)
        self._stop_tasks()
        self._stop_connector()
        self.definition = definition
        if target is not None:
            self.target = target
        self.state.clear_tasks()
        self.start()

    def restart(self, *, with_connector: bool, tasks: Collection[int]) -> None:
        """Restarts the instance and these tasks. Raises what made the connector fail."""
        self._look_up_values()
        for number in tasks:
            self.state.set_task_state(number, State.RESTARTING)
        self._stop_tasks(tasks)
        if with_connector:
            self._set_state(State.RESTARTING)
            self._stop_connector()
            if self.target is TargetState.STARTED:
                self._start_connector(values_are_fresh=True)
            else:
                self._set_state(State.PAUSED if self.target is TargetState.PAUSED else State.STOPPED)
        for number in tasks:
            if number < self.state.task_count:
                self._start_task(number)
        if with_connector:
            self.reconfigure()

    def restart_on_request(self, *, with_connector: bool, tasks: Collection[int]) -> None:
        """Calls :meth:`restart` for an operator, which resets the automatic restarts."""
        self._auto_restart.reset(self.definition.name)
        try:
            self.restart(with_connector=with_connector, tasks=tasks)
        finally:
            self._schedule_restarts()

    def reload(self, *, only_if_changed: bool) -> None:
        """Looks up config provider values that have expired, and restarts the connector; with ``only_if_changed`` only if they
        changed.

        A connector that does not run looks up its values when it starts. If a provider does not respond, the connector keeps
        running, and the provider is asked again after the same time.
        """
        definition = self.definition
        if self.target is not TargetState.STARTED:
            return
        try:
            config = self._values.resolve_for_start(definition.name, definition.given, again=True)
        except ConfigError as e:
            log.warning("Connector %s keeps its current config provider values: %s", definition.name, e.message)
            self._values.reschedule(definition.name)
            return
        # The restart of a single task may have made values known that the other tasks do not have yet.
        if only_if_changed and config == definition.config and self.state.has_tasks_of(config):
            return
        log.info("Restarting connector %s with new config provider values", definition.name)
        self.restart(with_connector=True, tasks=())

    def restart_task(self, number: int) -> None:
        """Restarts one task. Raises NotFoundError for an unknown number."""
        if not self._has_task(number):
            raise NotFoundError(f"Task {TaskId(self.definition.name, number)} not found")
        self._look_up_values()
        self._stop_tasks([number])
        self._start_task(number)

    def restart_task_on_request(self, number: int) -> None:
        """Calls :meth:`restart_task` for an operator, which resets the automatic restarts."""
        if self._has_task(number):
            self._auto_restart.reset(self.definition.name)
        try:
            self.restart_task(number)
        finally:
            self._schedule_restarts()

    def restart_failed(self, number: int | None) -> None:
        """Restarts the instance, or a task, automatically if it is still FAILED and is to run. Raises what made it fail again."""
        status = dict(self.state.statuses()).get(number)
        if self.target is not TargetState.STARTED or status is None or status.state is not State.FAILED:
            return
        try:
            if number is None:
                self.restart(with_connector=True, tasks=())
            else:
                self.restart_task(number)
        except Exception:
            # Usually reported as a state already; a repeated report changes nothing.
            self._schedule_restarts()
            raise

    def _has_task(self, number: int) -> bool:
        return 0 <= number < self.state.task_count

    def _schedule_restarts(self) -> None:
        for number, status in self.state.statuses():
            if status.state is State.FAILED:
                self._report(number, status.state, status.trace)

    def _report(self, number: int | None, state: State, trace: str | None) -> None:
        if not self._closing:
            self._auto_restart.on_state(self.definition.name, number, state, trace, self.definition.config)

    # --- connector

    def _look_up_values(self) -> None:
        """Updates the config provider values before a start. Raises ConfigError if a provider does not respond; what runs keeps
        running."""
        definition = self.definition
        config = self._values.resolve_for_start(definition.name, definition.given)
        self.definition = replace(definition, config=config)

    def _start_connector(self, *, values_are_fresh: bool = False) -> None:
        if not values_are_fresh:
            try:
                self._look_up_values()
            except Exception as e:
                log.error("Connector %s failed: %s", self.definition.name, describe(e), exc_info=e)
                self._set_state(State.FAILED, trace_of(e, self._mask))
                raise
        spec = self.definition.spec
        if self._placed == spec:
            self._executor.set_connector_target(spec.name, TargetState.STARTED).result()
            return
        self._stop_connector()
        with self._starting:
            if self._closing:
                raise self._removed()
            self._start_id = self._next_start_id()
            started = self._executor.start_connector(self._start_id, spec, TargetState.STARTED)
            self._placed = spec
        started.result()

    def _set_connector_target(self, target: TargetState) -> None:
        if self._placed is not None:
            self._executor.set_connector_target(self.definition.name, target).result()

    def _stop_connector(self) -> None:
        if self._placed is not None:
            self._executor.stop_connector(self.definition.name).result()
            self._placed = None

    # --- tasks

    def _start_task(self, number: int) -> None:
        definition = self.definition
        config = restore_values(self.state.task_config(number), definition.given, definition.config)
        paused = self.target is TargetState.PAUSED
        with self._starting:
            if self._closing:
                raise self._removed()
            start_id = self._next_start_id()
            self.state.add_task_start(number, start_id, definition.facts.version)
            self._executor.start_task(start_id, TaskSpec(TaskId(definition.name, number), definition.spec, config, paused))

    def _stop_tasks(self, numbers: Collection[int] | None = None) -> None:
        """Stops tasks in parallel; those that exceed their time are cut off."""
        stopped = self.state.remove_task_runs(numbers)
        self._executor.stop_tasks(self._task_ids(stopped)).result()

    def _pause_tasks(self, paused: bool) -> None:
        for task in self._task_ids(self.state.running_tasks()):
            self._executor.set_task_paused(task, paused)

    def _task_ids(self, numbers: Collection[int]) -> list[TaskId]:
        return [TaskId(self.definition.name, number) for number in numbers]

    # --- reports of the executor; outdated ones are ignored

    def on_connector_state(self, start_id: int, state: State, trace: str | None) -> None:
        if start_id == self._start_id:
            self._set_state(state, trace)

    def on_task_state(self, start_id: int, number: int, state: State, trace: str | None, version: str | None) -> None:
        if self.state.report_task(start_id, number, state, trace, version):
            self._report(number, state, trace)

    def on_stall(self, start_id: int, number: int | None, stall: Stall | None) -> None:
        if number is not None:
            self.state.set_task_stall(start_id, number, stall)
        elif start_id == self._start_id:
            self.state.set_stall(stall)

    def _set_state(self, state: State, trace: str | None = None) -> None:
        self.state.set_state(state, trace, self.definition.facts.version)
        self._report(None, state, trace)

    def status(self) -> ConnectorStatus:
        status = self.state.connector_status(self.definition.facts.type)
        return self._auto_restart.with_restarts(status, self.definition.config)
