"""What this worker runs of the cluster's connectors and tasks: what it was assigned, brought together with what runs.

The herder says what is wanted and :meth:`LocalWork.reconcile` starts and stops the difference. Nothing here waits: a stop takes
as long as it takes, and what is to run in its place starts when it is done. All methods are called on the herder's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol, TypeVar

from connect.errors import ConnectError
from worker.config.resolved_config import restore_values
from worker.executor import ConnectorSpec, Executor, TaskSpec
from worker.executors.futures import fail, succeed
from worker.group.protocol import Assignment, allocation_after
from worker.model import TargetState, TaskId
from worker.storage.config_state import ConfigState

T = TypeVar("T")

log = logging.getLogger(__name__)


class WorkEvents(Protocol):
    """The herder, as what runs here needs it."""

    def spec(self, name: str, config: Mapping[str, str | None]) -> Future[ConnectorSpec]:
        """The configuration with values of config providers, which may take a while."""

    def before_tasks(self, name: str) -> Future[str | None]:
        """What has to happen before tasks of a connector start: with exactly-once their predecessors are fenced. The prefix of
        their transactional ids, or None without exactly-once."""

    def connector_started(self, name: str) -> None:
        """A connector runs, and is to be asked for its tasks."""

    def connector_stopped(self, name: str, *, for_good: bool) -> None:
        """An instance has ended that was not stopped for its target state."""

    def tasks_stopped(self, tasks: Collection[TaskId]) -> None:
        """Tasks have ended, or were cut off."""

    def connector_failed(self, name: str, run: int, error: BaseException) -> None:
        """It could not even be asked to start."""

    def tasks_failed(self, runs: Mapping[TaskId, int], error: BaseException) -> None:
        """They could not even be asked to start."""

    def work_settled(self) -> None:
        """Nothing is being stopped any more."""


@dataclass(slots=True)
class RunningConnector:
    """An instance that was asked to start."""

    run: int
    target: TargetState
    started: Future[None] = field(default_factory=Future)
    """Done when the start was; has the error when it failed."""


@dataclass(slots=True)
class RunningTask:
    """A task that was asked to start."""

    run: int
    generation: int | None
    """Of the connector's task configurations."""
    started: Future[None] = field(default_factory=Future)


class LocalWork:
    """Owner of the instances on this worker."""

    def __init__(
        self,
        executor: Executor,
        events: WorkEvents,
        post: Callable[[Callable[[], None]], None],
        state: Callable[[], ConfigState],
    ) -> None:
        """``post`` queues a job for the herder's thread; ``state`` is the configuration that the herder goes by."""
        self._executor = executor
        self._events = events
        self._post = post
        self._state = state
        self._runs = count(1)
        self.connectors: dict[str, RunningConnector] = {}
        self.tasks: dict[TaskId, RunningTask] = {}
        self._latest_runs: dict[str | TaskId, int] = {}
        self._stopping_connectors: set[str] = set()
        self._stopping_tasks: set[TaskId] = set()
        self._held: Assignment | None = None
        self._suspended = False
        # Connectors whose tasks changed: none of them starts before every worker has stopped the old ones, which the group's next
        # round tells. The value is the offset in the config topic that the round must have seen.
        self._await_round: dict[str, int] = {}
        self._assigned_offset = -1

    # --- what is assigned

    @property
    def held(self) -> Assignment | None:
        """All that this worker was given, for its next join; None for nothing yet. Replaced, never changed."""
        return self._held

    @property
    def held_tasks(self) -> tuple[TaskId, ...]:
        """The tasks among what is held."""
        return () if self._held is None else self._held.tasks

    def owns_task(self, task: TaskId) -> bool:
        return self._held is not None and not self._suspended and task in self._held.tasks

    def take(self, answer: Assignment) -> None:
        """Notes the outcome of a round; :meth:`reconcile` carries it out."""
        self._held = allocation_after(self._held, answer)
        self._suspended = False
        self._assigned_offset = answer.config_offset

    def take_nothing(self) -> None:
        """Nothing is this worker's own any more: the eager protocol deals all out anew."""
        self._held = None
        self._assigned_offset = -1

    def suspend(self) -> None:
        """The worker fell out of the group: nothing runs until the next round (promise 4).

        It still says there what it held: what nobody else got meanwhile it gets back at once, where a worker that comes with
        empty hands would wait for ``scheduled.rebalance.max.delay.ms``. What somebody else has too the leader takes from both.
        """
        self._suspended = True

    def tasks_changed(self, name: str, offset: int) -> None:
        """A new set of tasks of a connector lies below this offset of the config topic: the old ones are stopped."""
        self._await_round[name] = offset
        self._stop_tasks([task for task in self.tasks if task.connector == name])

    def exists(self, name: str) -> bool:
        """Whether there is such a connector, here or elsewhere."""
        return self._state().contains(name)

    def is_latest(self, instance: str | TaskId, run: int) -> bool:
        """Whether this is the last run of a connector or task here, ended or not."""
        return self._latest_runs.get(instance) == run

    def is_wanted(self, instance: str | TaskId, run: int) -> bool:
        """Whether this run was asked to start and not to stop since."""
        running = self.connectors.get(instance) if isinstance(instance, str) else self.tasks.get(instance)
        return running is not None and running.run == run

    # --- bringing together

    @property
    def stopping(self) -> bool:
        """Whether something is still being stopped. As long as it is, the worker must not join a new round."""
        return bool(self._stopping_connectors or self._stopping_tasks)

    def reconcile(self) -> None:
        """Starts what is to run here and does not, and stops what is not to run here."""
        state, held = self._state(), None if self._suspended else self._held
        connectors = [] if held is None else [name for name in held.connectors if state.contains(name)]
        tasks = [] if held is None else [task for task in held.tasks if self._may_run(task, state)]
        wanted = set(connectors), set(tasks)
        self._stop_tasks([task for task in self.tasks if task not in wanted[1]])
        for name in [name for name in self.connectors if name not in wanted[0]]:
            self.stop_connector(name, for_good=not state.contains(name))
        for name in connectors:
            if name not in self.connectors and name not in self._stopping_connectors:
                self._start_connector(name)
        missing: dict[str, list[TaskId]] = {}
        for task in tasks:
            if task not in self.tasks and task not in self._stopping_tasks:
                missing.setdefault(task.connector, []).append(task)
        for name, group in missing.items():
            self._start_tasks(name, group)

    def _may_run(self, task: TaskId, state: ConfigState) -> bool:
        if state.task_config(task) is None or state.is_inconsistent(task.connector) or not state.contains(task.connector):
            return False
        awaited = self._await_round.get(task.connector)
        if awaited is not None and self._assigned_offset < awaited:
            return False
        self._await_round.pop(task.connector, None)
        return state.target_state(task.connector) is not TargetState.STOPPED

    def follow_target(self, name: str) -> None:
        """Pauses, resumes or stops what runs of a connector here, as the config topic says."""
        target = self._target_of(name)
        connector = self.connectors.get(name)
        if connector is not None and connector.target is not target:
            connector.target = target
            self._when_done(self._executor.set_connector_target(name, target), lambda: self._target_followed(name, connector))
        for task in self.tasks:
            if task.connector == name and target is not TargetState.STOPPED:
                self._executor.set_task_paused(task, target is TargetState.PAUSED)

    def _target_followed(self, name: str, connector: RunningConnector) -> None:
        if self.connectors.get(name) is connector and connector.target is TargetState.STARTED:
            self._events.connector_started(name)

    def stop_connector(self, name: str, *, for_good: bool) -> None:
        """Stops an instance; whatever :meth:`reconcile` finds then starts it anew."""
        if self.connectors.pop(name, None) is None:
            return
        self._stopping_connectors.add(name)

        def stopped() -> None:
            self._stopping_connectors.discard(name)
            self._events.connector_stopped(name, for_good=for_good)
            self._settled()

        self._when_done(self._executor.stop_connector(name), stopped)

    def stop_tasks(self, tasks: Collection[TaskId]) -> None:
        """Stops tasks; whatever :meth:`reconcile` finds then starts them anew."""
        self._stop_tasks([task for task in tasks if task in self.tasks])

    def stop_all(self) -> None:
        """Stops everything; :attr:`stopping` tells when it is done."""
        self._stop_tasks(list(self.tasks))
        for name in list(self.connectors):
            self.stop_connector(name, for_good=False)

    def _stop_tasks(self, tasks: list[TaskId]) -> None:
        if not tasks:
            return
        for task in tasks:
            del self.tasks[task]
        self._stopping_tasks.update(tasks)

        def stopped() -> None:
            self._stopping_tasks.difference_update(tasks)
            self._events.tasks_stopped(tasks)
            self._settled()

        self._when_done(self._executor.stop_tasks(tasks), stopped)

    def _settled(self) -> None:
        # Also when there is more to stop: what was stopped may have to start again.
        self._events.work_settled()

    # --- starting

    def _start_connector(self, name: str) -> None:
        config = self._state().config(name)
        assert config is not None
        connector = RunningConnector(next(self._runs), self._target_of(name))
        self.connectors[name] = connector
        self._latest_runs[name] = connector.run
        self._when_answered(
            self._events.spec(name, config),
            lambda spec: self._with_spec(name, connector, spec),
            lambda error: self._not_started(name, connector, error),
        )

    def _with_spec(self, name: str, connector: RunningConnector, spec: ConnectorSpec) -> None:
        if self.connectors.get(name) is not connector:
            return
        self._when_answered(
            self._executor.start_connector(connector.run, spec, connector.target),
            lambda _: self._connector_is_up(name, connector),
            lambda error: fail(connector.started, error),
        )

    def _connector_is_up(self, name: str, connector: RunningConnector) -> None:
        succeed(connector.started, None)
        self._target_followed(name, connector)

    def _not_started(self, name: str, connector: RunningConnector, error: BaseException) -> None:
        if self.connectors.get(name) is connector:
            self._events.connector_failed(name, connector.run, error)
        fail(connector.started, error)

    def _start_tasks(self, name: str, tasks: list[TaskId]) -> None:
        state = self._state()
        config = state.config(name)
        assert config is not None
        generation = state.task_generation(name)
        started = {task: RunningTask(next(self._runs), generation) for task in tasks}
        self.tasks.update(started)
        self._latest_runs.update((task, running.run) for task, running in started.items())

        def failed(error: BaseException) -> None:
            current = {task: running.run for task, running in started.items() if self.tasks.get(task) is running}
            self._events.tasks_failed(current, error)
            for running in started.values():
                fail(running.started, error)

        def with_spec(spec: ConnectorSpec) -> None:
            self._when_answered(self._events.before_tasks(name), lambda prefix: self._run_tasks(spec, started, prefix), failed)

        self._when_answered(self._events.spec(name, config), with_spec, failed)

    def _run_tasks(self, spec: ConnectorSpec, tasks: Mapping[TaskId, RunningTask], id_prefix: str | None) -> None:
        state, paused = self._state(), self._target_of(spec.name) is TargetState.PAUSED
        for task, running in tasks.items():
            if self.tasks.get(task) is not running:
                continue
            own = {key: value for key, value in (state.task_config(task) or {}).items() if value is not None}
            config = restore_values(own, spec.given, spec.config)
            transactional_id = None if id_prefix is None else f"{id_prefix}{task.task}"
            try:
                self._executor.start_task(running.run, TaskSpec(task, spec, config, paused, transactional_id))
            except ConnectError as e:
                self._events.tasks_failed({task: running.run}, e)
                fail(running.started, e)
            else:
                succeed(running.started, None)

    def _target_of(self, name: str) -> TargetState:
        return self._state().target_state(name) or TargetState.STARTED

    # --- answers that come later

    def _when_done(self, future: Future[None], then: Callable[[], None]) -> None:
        def done(_: Future[None]) -> None:
            error = future.exception()
            if error is not None:
                log.warning("What was asked of a connector failed: %s", error)
            then()

        future.add_done_callback(lambda f: self._post(lambda: done(f)))

    def _when_answered(self, future: Future[T], then: Callable[[T], None], failed: Callable[[BaseException], None]) -> None:
        def answered() -> None:
            error = future.exception()
            if error is not None:
                failed(error)
            else:
                then(future.result())

        future.add_done_callback(lambda _: self._post(answered))
