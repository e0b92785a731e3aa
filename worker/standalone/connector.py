"""One connector of a standalone worker: what is wanted of it, what becomes of it, and the order in which things are done.

Its code runs in an :class:`worker.executor.Executor`. Every request (start, pause, restart, ...) is a job in the unit's own
lane, in the order of arrival: it asks the executor and waits for the outcome. So a connector that hangs holds up nobody else, and
no lock is held while a plugin runs.
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
from worker.executors.serial_queue import SerialQueue
from worker.model import ConnectorStatus, State, Status, TargetState, TaskId, TaskInfo, TaskProgress
from worker.standalone.auto_restart import UnitHealing

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectorDefinition:
    """What is to run: the configuration, and what is known of the class it names."""

    name: str
    given: Mapping[str, str] = field(repr=False)
    """As it was given, with references to config providers: what is shown."""
    config: Mapping[str, str] = field(repr=False)
    """With values in place of them, as they were when it was started last: what is used."""
    facts: ConnectorFacts

    @property
    def spec(self) -> ConnectorSpec:
        return ConnectorSpec(self.name, self.given, self.config)


@dataclass(frozen=True, slots=True)
class UnitTools:
    """What a unit works with, the worker's own."""

    worker_id: str
    executor: Executor
    values: ResolvedConfigs
    mask: SecretMask
    next_run: Callable[[], int]
    healing: UnitHealing
    deadlines: Deadlines = field(default_factory=Deadlines)


class ConnectorUnit:
    """Methods named as verbs run in the unit's lane, by :meth:`submit`; properties, snapshots and what begins with ``on_`` are
    for any thread."""

    def __init__(self, definition: ConnectorDefinition, tools: UnitTools, target: TargetState) -> None:
        self.definition = definition
        self.target = target
        self._tools = tools
        self._lane = SerialQueue(f"unit-{definition.name}", definition.name, tools.deadlines)
        self._state = threading.Lock()  # for what follows; never held while anything is waited for
        self._status = Status(State.UNASSIGNED, tools.worker_id, version=definition.facts.version)
        self._task_statuses: dict[int, Status] = {}
        self._task_configs: list[dict[str, str]] = []  # with references where the connector's configuration has them
        self._config_of_tasks: Mapping[str, str] = {}
        self._placed: ConnectorSpec | None = None  # the instance that the executor has
        self._run: int | None = None
        self._task_runs: dict[int, int] = {}
        self._topics: set[str] = set()
        self._closing = False

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Queues a job for the unit's lane."""
        if self._closing:
            return self._refused()
        return self._lane.submit(job)

    def _refused(self) -> Future[T]:
        future: Future[T] = Future()
        future.set_exception(self._removed())
        return future

    def _removed(self) -> IllegalStateError:
        return IllegalStateError(f"Connector {self.definition.name} is being removed")

    def shut_down(self) -> Future[None]:
        """Stops everything for good, whatever the lane is doing. Jobs submitted later are refused. The future is done when all
        has ended or was given up."""
        executor, name = self._tools.executor, self.definition.name
        ended: Future[None] = Future()

        def stop_connector(_: Future[None]) -> None:
            executor.stop_connector(name).add_done_callback(lambda _: ended.set_result(None))

        with self._state:
            self._closing = True
            tasks = self._task_ids(self._task_runs)
        executor.stop_tasks(tasks).add_done_callback(stop_connector)
        return ended

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
        self._tools.healing.forget(self.definition.name)
        match target:
            case TargetState.STARTED:
                if self._status.state is not State.RUNNING:
                    self._start_connector()
                self._pause_tasks(False)
                self.reconfigure()
                self._tell_of_failures()
            case TargetState.PAUSED:
                self._pause_tasks(True)
                self._let_connector_follow(target)
                if self._status.state is not State.FAILED:
                    self._set_status(State.PAUSED)
            case TargetState.STOPPED:
                self._stop_tasks()
                self._forget_tasks()
                self._let_connector_follow(target)
                self._set_status(State.STOPPED)

    def reconfigure(self) -> None:
        """Asks the connector for its tasks, and replaces the running ones when they changed."""
        if self.target is not TargetState.STARTED or self._placed is None:
            return
        try:
            configs = self._tools.executor.task_configs(self.definition.name).result()
        except IllegalStateError:
            if self._status.state is State.FAILED:
                raise
            return  # it is not started
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

    def reconfigure_if(self, run: int) -> None:
        """The same, if the instance that asks for it is still the one that runs."""
        if run == self._run and self._placed is not None:
            self.reconfigure()

    def change(self, definition: ConnectorDefinition, target: TargetState | None) -> None:
        """Takes a new configuration: everything is started anew, in the state it had."""
        self._tools.healing.forget(self.definition.name)
        self._stop_tasks()
        self._stop_connector()
        self.definition = definition
        if target is not None:
            self.target = target
        self._forget_tasks()
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
            if self.target is TargetState.STARTED:
                self._start_connector(values_are_fresh=True)
            else:
                self._set_status(State.PAUSED if self.target is TargetState.PAUSED else State.STOPPED)
        for number in tasks:
            if number < len(self._task_configs):
                self._start_task(number)
        if with_connector:
            self.reconfigure()

    def restart_on_request(self, *, with_connector: bool, tasks: Collection[int]) -> None:
        """The same, because somebody asked for it: what failed before counts no more."""
        self._tools.healing.forget(self.definition.name)
        try:
            self.restart(with_connector=with_connector, tasks=tasks)
        finally:
            self._tell_of_failures()

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
            config = self._tools.values.resolve_for_start(definition.name, definition.given, again=True)
        except ConfigError as e:
            log.warning("Connector %s goes on with the values it has: %s", definition.name, e.message)
            self._tools.values.reschedule(definition.name)
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

    def restart_task_on_request(self, number: int) -> None:
        """The same, because somebody asked for it: what failed before counts no more."""
        if 0 <= number < len(self._task_configs):
            self._tools.healing.forget(self.definition.name)
        try:
            self.restart_task(number)
        finally:
            self._tell_of_failures()

    def heal(self, number: int | None) -> None:
        """Restarts the instance or a task by itself, if it still is to run and does not. Raises what kept it from it."""
        if self.target is not TargetState.STARTED or self._state_of(number) is not State.FAILED:
            return
        try:
            if number is None:
                self.restart(with_connector=True, tasks=())
            else:
                self.restart_task(number)
        except Exception:
            # Mostly told as a state already, which makes this one nothing new.
            self._tell_of_failures()
            raise

    def _state_of(self, number: int | None) -> State | None:
        with self._state:
            status = self._status if number is None else self._task_statuses.get(number)
        return None if status is None else status.state

    def _tell_of_failures(self) -> None:
        with self._state:
            statuses: list[tuple[int | None, Status]] = [(None, self._status), *self._task_statuses.items()]
        for number, status in statuses:
            if status.state is State.FAILED:
                self._tell(number, status.state, status.trace)

    def _tell(self, number: int | None, state: State, trace: str | None) -> None:
        if not self._closing:
            self._tools.healing.told(self.definition.name, number, state, trace, self.definition.config)

    # --- connector

    def _look_up_values(self) -> None:
        """Before anything is started: values of config providers may have changed since. Raises ConfigError when one does not
        answer; what runs goes on."""
        definition = self.definition
        config = self._tools.values.resolve_for_start(definition.name, definition.given)
        self.definition = replace(definition, config=config)

    def _start_connector(self, *, values_are_fresh: bool = False) -> None:
        executor = self._tools.executor
        if not values_are_fresh:
            try:
                self._look_up_values()
            except Exception as e:
                log.error("Connector %s failed: %s", self.definition.name, describe(e), exc_info=e)
                self._set_status(State.FAILED, trace_of(e, self._tools.mask))
                raise
        spec = self.definition.spec
        if self._placed == spec:
            executor.set_connector_target(spec.name, TargetState.STARTED).result()
            return
        self._stop_connector()
        with self._state:
            if self._closing:
                raise self._removed()
            self._run = self._tools.next_run()
            started = executor.start_connector(self._run, spec, TargetState.STARTED)
            self._placed = spec
        started.result()

    def _let_connector_follow(self, target: TargetState) -> None:
        if self._placed is not None:
            self._tools.executor.set_connector_target(self.definition.name, target).result()

    def _stop_connector(self) -> None:
        if self._placed is not None:
            self._tools.executor.stop_connector(self.definition.name).result()
            self._placed = None

    # --- tasks

    def _start_task(self, number: int) -> None:
        definition = self.definition
        config = restore_values(self._task_configs[number], definition.given, definition.config)
        paused = self.target is TargetState.PAUSED
        with self._state:
            if self._closing:
                raise self._removed()
            run = self._task_runs[number] = self._tools.next_run()
            self._task_statuses[number] = Status(State.UNASSIGNED, self._tools.worker_id, version=definition.facts.version)
            self._tools.executor.start_task(run, TaskSpec(TaskId(definition.name, number), definition.spec, config, paused))

    def _stop_tasks(self, numbers: Collection[int] | None = None) -> None:
        """Stops tasks side by side; those that take longer than they are given are cut off."""
        with self._state:
            chosen = [number for number in self._task_runs if numbers is None or number in numbers]
            for number in chosen:
                del self._task_runs[number]
        self._tools.executor.stop_tasks(self._task_ids(chosen)).result()

    def _pause_tasks(self, paused: bool) -> None:
        with self._state:
            tasks = self._task_ids(self._task_runs)
        for task in tasks:
            self._tools.executor.set_task_paused(task, paused)

    def _forget_tasks(self) -> None:
        with self._state:
            self._task_configs = []
            self._task_statuses = {}

    def _task_ids(self, numbers: Collection[int]) -> list[TaskId]:
        return [TaskId(self.definition.name, number) for number in numbers]

    # --- what the executor tells. Of what was ended or replaced nothing counts any more.

    def on_connector_state(self, run: int, state: State, trace: str | None) -> None:
        if run == self._run:
            self._set_status(state, trace)

    def on_task_state(self, run: int, number: int, state: State, trace: str | None, version: str | None) -> None:
        with self._state:
            if self._task_runs.get(number) != run:
                return
            self._task_statuses[number] = Status(state, self._tools.worker_id, trace, version=version)
        self._tell(number, state, trace)

    def on_topics(self, run: int, number: int, topics: Collection[str]) -> None:
        with self._state:
            if self._task_runs.get(number) == run:
                self._topics.update(topics)

    def _set_task_status(self, number: int, state: State) -> None:
        with self._state:
            if number in self._task_statuses:
                self._task_statuses[number] = replace(self._task_statuses[number], state=state)

    def _set_status(self, state: State, trace: str | None = None) -> None:
        with self._state:
            self._status = Status(state, self._tools.worker_id, trace, version=self.definition.facts.version)
        self._tell(None, state, trace)

    # --- snapshots, for any thread

    def status(self) -> ConnectorStatus:
        name, kind = self.definition.name, self.definition.facts.type
        with self._state:
            status = ConnectorStatus(name, self._status, sorted(self._task_statuses.items()), kind)
        return self._tools.healing.shown(status, self.definition.config)

    def task_infos(self) -> list[TaskInfo]:
        with self._state:
            return [TaskInfo(TaskId(self.definition.name, n), dict(c)) for n, c in enumerate(self._task_configs)]

    def progress(self, number: int) -> TaskProgress | None:
        return self._tools.executor.progress(TaskId(self.definition.name, number))

    def topics(self) -> list[str]:
        with self._state:
            return sorted(self._topics)

    def reset_topics(self) -> None:
        with self._state:
            self._topics.clear()
