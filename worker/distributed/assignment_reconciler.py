"""Starts and stops connectors and tasks until they match what this worker was assigned.

The herder changes the assignment or the configuration, and :meth:`AssignmentReconciler.reconcile` starts and stops the
difference. Nothing here blocks: a stop takes as long as it takes, and its replacement starts when it is done. All methods are
called on the herder's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Protocol, TypeVar

from connect.errors import ConnectError
from worker.config.resolved_config import restore_values
from worker.distributed.connector_specs import without_nulls
from worker.distributed.local_instances import LocalInstances, RunningConnector, RunningTask, StartedWith
from worker.executor import ConnectorSpec, Executor, TaskSpec
from worker.executors.futures import fail, succeed
from worker.group.protocol import Assignment, allocation_after
from worker.model import TargetState, TaskId
from worker.storage.config_state import ConfigState

T = TypeVar("T")

log = logging.getLogger(__name__)

ResolveSpec = Callable[[str, Mapping[str, str | None]], Future[ConnectorSpec]]
"""Resolves a connector's configuration with values of config providers, which may take a while."""

BeforeTasks = Callable[[str], Future[str | None]]
"""Prepares the start of a connector's tasks: with exactly-once their predecessors are fenced. Returns the prefix of their
transactional IDs, or None without exactly-once."""


class InstanceEvents(Protocol):
    """Receives what happened to connectors and tasks, on the herder's thread."""

    def connector_started(self, name: str) -> None:
        """A connector runs; its task configurations are to be requested."""

    def connector_stopped(self, name: str) -> None:
        """An instance has stopped."""

    def tasks_stopped(self, tasks: Collection[TaskId]) -> None:
        """Tasks have stopped, or were cut off."""

    def connector_failed(self, name: str, error: BaseException) -> None:
        """A connector could not be asked to start."""

    def tasks_failed(self, tasks: Collection[TaskId], error: BaseException) -> None:
        """Tasks could not be asked to start."""

    def stop_finished(self) -> None:
        """A stop has finished; others may still be in progress."""


class AssignmentReconciler:
    """Starts and stops the instances on this worker."""

    def __init__(
        self,
        executor: Executor,
        instances: LocalInstances,
        events: InstanceEvents,
        resolve_spec: ResolveSpec,
        before_tasks: BeforeTasks,
        post: Callable[[Callable[[], None]], None],
        state: Callable[[], ConfigState],
    ) -> None:
        """``post`` queues a job for the herder's thread; ``state`` returns the configuration that the herder goes by."""
        self._executor = executor
        self._instances = instances
        self._events = events
        self._resolve_spec = resolve_spec
        self._before_tasks = before_tasks
        self._post = post
        self._state = state
        self._stopping_connectors: set[str] = set()
        self._stopping_tasks: set[TaskId] = set()
        self._held: Assignment | None = None
        self._suspended = False
        # Connectors whose tasks changed: none of them starts before every worker has stopped the old ones, which the next
        # rebalance shows. The value is the offset in the config topic that the rebalance must have seen.
        self._await_rebalance: dict[str, int] = {}
        self._assigned_offset = -1

    # --- assignment

    @property
    def held(self) -> Assignment | None:
        """The whole current assignment, sent with the next join; None without one. Immutable."""
        return self._held

    def owns_task(self, task: TaskId) -> bool:
        return self._held is not None and not self._suspended and task in self._held.tasks

    def assign(self, assignment: Assignment) -> None:
        """Notes the result of a rebalance; :meth:`reconcile` carries it out."""
        self._held = allocation_after(self._held, assignment)
        self._suspended = False
        self._assigned_offset = assignment.config_offset

    def revoke_all(self) -> None:
        """Gives up the whole assignment, as the eager protocol demands before a rebalance."""
        self._held = None
        self._assigned_offset = -1

    def suspend(self) -> None:
        """Lets nothing run until the next rebalance, because the worker was removed from the group (promise 4).

        The worker still reports its assignment when it joins: what nobody else got meanwhile is assigned to it again at once,
        while a worker without an assignment would wait for ``scheduled.rebalance.max.delay.ms``. The leader revokes duplicates
        from both workers.
        """
        self._suspended = True

    def tasks_changed(self, name: str, offset: int) -> None:
        """Stops a connector's tasks, because a new set of them was written before this offset of the config topic."""
        self._await_rebalance[name] = offset
        self._stop_tasks([task for task in self._instances.tasks if task.connector == name])

    def stop_changed_tasks(self, before: ConfigState) -> None:
        """Stops tasks whose configurations have changed since ``before``."""
        state, held = self._state(), () if self._held is None else self._held.tasks
        for name in {task.connector for task in (*self._instances.tasks, *held)}:
            if before.task_generation(name) != state.task_generation(name):
                self.tasks_changed(name, state.offset)

    # --- reconciling

    @property
    def is_stopping(self) -> bool:
        """Whether something is still being stopped. The worker must not join a rebalance until then."""
        return bool(self._stopping_connectors or self._stopping_tasks)

    def reconcile(self) -> None:
        """Starts what is assigned but does not run, and stops what runs but is not assigned."""
        state, held = self._state(), None if self._suspended else self._held
        connectors = [] if held is None else [name for name in held.connectors if state.contains(name)]
        tasks = [] if held is None else [task for task in held.tasks if self._may_run(task, state)]
        wanted = set(connectors), set(tasks)
        self._stop_tasks([task for task in self._instances.tasks if task not in wanted[1]])
        for name in [name for name in self._instances.connectors if name not in wanted[0]]:
            self.stop_connector(name)
        for name in connectors:
            if name not in self._instances.connectors and name not in self._stopping_connectors:
                self._start_connector(name)
        missing: dict[str, list[TaskId]] = {}
        for task in tasks:
            if task not in self._instances.tasks and task not in self._stopping_tasks:
                missing.setdefault(task.connector, []).append(task)
        for name, group in missing.items():
            self._start_tasks(name, group)

    def _may_run(self, task: TaskId, state: ConfigState) -> bool:
        if state.task_config(task) is None or state.is_inconsistent(task.connector) or not state.contains(task.connector):
            return False
        awaited = self._await_rebalance.get(task.connector)
        if awaited is not None and self._assigned_offset < awaited:
            return False
        self._await_rebalance.pop(task.connector, None)
        return state.target_state(task.connector) is not TargetState.STOPPED

    def follow_target(self, name: str) -> None:
        """Pauses, resumes, or stops the instances of a connector that run here, as the config topic says."""
        target = self._target_of(name)
        connector = self._instances.connectors.get(name)
        if connector is not None and connector.target is not target:
            connector.target = target
            self._when_done(self._executor.set_connector_target(name, target), lambda: self._target_followed(name, connector))
        for task in self._instances.tasks:
            if task.connector == name and target is not TargetState.STOPPED:
                self._executor.set_task_paused(task, target is TargetState.PAUSED)

    def _target_followed(self, name: str, connector: RunningConnector) -> None:
        if self._instances.connectors.get(name) is connector and connector.target is TargetState.STARTED:
            self._events.connector_started(name)

    def stop_connector(self, name: str) -> None:
        """Stops an instance. :meth:`reconcile` restarts it afterwards if it is still assigned."""
        if self._instances.connectors.pop(name, None) is None:
            return
        self._stopping_connectors.add(name)

        def stopped() -> None:
            self._stopping_connectors.discard(name)
            self._events.connector_stopped(name)
            self._events.stop_finished()

        self._when_done(self._executor.stop_connector(name), stopped)

    def stop_tasks(self, tasks: Collection[TaskId]) -> None:
        """Stops tasks. :meth:`reconcile` restarts them afterwards if they are still assigned."""
        self._stop_tasks([task for task in tasks if task in self._instances.tasks])

    def stop_all(self) -> None:
        """Stops everything. :attr:`is_stopping` is False when it is done."""
        self._stop_tasks(list(self._instances.tasks))
        for name in list(self._instances.connectors):
            self.stop_connector(name)

    def _stop_tasks(self, tasks: list[TaskId]) -> None:
        if not tasks:
            return
        for task in tasks:
            del self._instances.tasks[task]
        self._stopping_tasks.update(tasks)

        def stopped() -> None:
            self._stopping_tasks.difference_update(tasks)
            self._events.tasks_stopped(tasks)
            self._events.stop_finished()

        self._when_done(self._executor.stop_tasks(tasks), stopped)

    # --- starting

    def _start_connector(self, name: str) -> None:
        config = self._state().config(name)
        assert config is not None
        connector = self._instances.add_connector(name, self._target_of(name))
        self._when_answered(
            self._resolve_spec(name, config),
            lambda spec: self._run_connector(name, connector, spec),
            lambda error: self._connector_not_started(name, connector, error),
        )

    def _run_connector(self, name: str, connector: RunningConnector, spec: ConnectorSpec) -> None:
        if self._instances.connectors.get(name) is not connector:
            return
        if spec.config != spec.given:
            connector.values = StartedWith(spec.config, spec.config)
        self._when_answered(
            self._executor.start_connector(connector.start_id, spec, connector.target),
            lambda _: self._connector_started(name, connector),
            lambda error: fail(connector.started, error),
        )

    def _connector_started(self, name: str, connector: RunningConnector) -> None:
        succeed(connector.started, None)
        self._target_followed(name, connector)

    def _connector_not_started(self, name: str, connector: RunningConnector, error: BaseException) -> None:
        if self._instances.connectors.get(name) is connector:
            self._events.connector_failed(name, error)
        fail(connector.started, error)

    def _start_tasks(self, name: str, tasks: list[TaskId]) -> None:
        state = self._state()
        config = state.config(name)
        assert config is not None
        started = self._instances.add_tasks(tasks, state.task_generation(name))

        def failed(error: BaseException) -> None:
            current = [task for task, running in started.items() if self._instances.tasks.get(task) is running]
            self._events.tasks_failed(current, error)
            for running in started.values():
                fail(running.started, error)

        def with_spec(spec: ConnectorSpec) -> None:
            self._when_answered(self._before_tasks(name), lambda prefix: self._run_tasks(spec, started, prefix), failed)

        self._when_answered(self._resolve_spec(name, config), with_spec, failed)

    def _run_tasks(self, spec: ConnectorSpec, tasks: Mapping[TaskId, RunningTask], id_prefix: str | None) -> None:
        state, paused = self._state(), self._target_of(spec.name) is TargetState.PAUSED
        for task, running in tasks.items():
            if self._instances.tasks.get(task) is not running:
                continue
            own = without_nulls(state.task_config(task) or {})
            config = restore_values(own, spec.given, spec.config)
            if spec.config != spec.given:
                running.values = StartedWith(spec.config, config)
            transactional_id = None if id_prefix is None else f"{id_prefix}{task.task}"
            try:
                self._executor.start_task(running.start_id, TaskSpec(task, spec, config, paused, transactional_id))
            except ConnectError as e:
                self._events.tasks_failed([task], e)
                fail(running.started, e)
            else:
                succeed(running.started, None)

    def _target_of(self, name: str) -> TargetState:
        return self._state().target_state(name) or TargetState.STARTED

    # --- results of futures, on the herder's thread

    def _when_done(self, future: Future[None], then: Callable[[], None]) -> None:
        def done(_: Future[None]) -> None:
            error = future.exception()
            if error is not None:
                log.warning("A request to a connector failed: %s", error)
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
