"""Handles what happens to connectors and tasks: reports of the executor, and progress of the reconciler."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from connect import crash_points
from worker.distributed.config_sync import ConfigSync
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.local_instances import Instance, LocalInstances
from worker.distributed.status_writer import StatusWriter
from worker.model import Stall, State, TaskId
from worker.storage.status_store import StatusStore

log = logging.getLogger(__name__)

_ALIVE = frozenset({State.RUNNING, State.PAUSED, State.RESTARTING})


class ExecutorReports:
    """Implements :class:`worker.executor.ExecutorListener`: passes reports to the herder's thread, which ignores outdated
    runs."""

    def __init__(
        self,
        loop: HerderLoop,
        config: ConfigSync,
        instances: LocalInstances,
        statuses: StatusWriter,
        topics: StatusStore | None,
        reconfigure: Callable[[str], None],
    ) -> None:
        """``topics`` stores the topics that connectors use, None if they are not tracked. ``reconfigure`` requests the task
        configurations of a connector, on the herder's thread."""
        self._loop = loop
        self._config = config
        self._instances = instances
        self._statuses = statuses
        self._topics = topics
        self._reconfigure = reconfigure

    def on_connector_state(self, start_id: int, name: str, state: State, trace: str | None, version: str | None) -> None:
        self._loop.post(lambda: self._report(start_id, name, state, trace, version))

    def on_task_state(self, start_id: int, task: TaskId, state: State, trace: str | None, version: str | None) -> None:
        self._loop.post(lambda: self._report(start_id, task, state, trace, version))

    def on_reconfiguration_requested(self, start_id: int, name: str) -> None:
        def reconfigure() -> None:
            if self._instances.is_latest(name, start_id):
                self._reconfigure(name)

        self._loop.post(reconfigure)

    def on_topics(self, start_id: int, task: TaskId, topics: Collection[str]) -> None:
        store = self._topics
        if store is None:
            return

        def add_topics() -> None:
            # A task may report them while it stops, after the topics of its deleted connector were cleared.
            if self._instances.is_latest(task, start_id) and self._config.state.contains(task.connector):
                for topic in topics:
                    store.add_topic(task.connector, task.task, topic)

        self._loop.post(add_topics)

    def on_stall(self, start_id: int, instance: Instance, stall: Stall | None) -> None:
        def report() -> None:
            if self._instances.is_running(instance, start_id):
                self._statuses.report_stall(instance, stall)

        self._loop.post(report)

    def _report(self, start_id: int, instance: Instance, state: State, trace: str | None, version: str | None) -> None:
        if not self._instances.is_latest(instance, start_id):
            log.debug("Ignoring %s of %s from an outdated run", state.value, instance)
            return
        self._statuses.set_version(instance, version)
        if state in _ALIVE and not self._instances.is_running(instance, start_id):
            # A start in progress when the stop was requested. Another worker may have reported the instance as running by now;
            # this status would hide that one, and the UNASSIGNED that follows would stay.
            log.debug("Ignoring %s of %s, which was asked to stop", state.value, instance)
            return
        if state is State.FAILED:
            # Executors log the failure where it happens, with Python's own traceback.
            log.debug("%s failed", instance)
            if not self._instances.is_running(instance, start_id):
                # It failed while stopping, before the executor knew of the stop; only its end matters.
                state, trace = State.UNASSIGNED, None
        self._statuses.report(instance, state, trace)


class InstanceEventHandler:
    """Implements :class:`worker.distributed.assignment_reconciler.InstanceEvents`."""

    def __init__(self, statuses: StatusWriter, reconfigure: Callable[[str], None], on_stop_finished: Callable[[], None]) -> None:
        self._statuses = statuses
        self._reconfigure = reconfigure
        self._on_stop_finished = on_stop_finished

    def connector_started(self, name: str) -> None:
        self._reconfigure(name)

    def connector_stopped(self, name: str) -> None:
        self._statuses.report_stopped(name)

    def tasks_stopped(self, tasks: Collection[TaskId]) -> None:
        crash_points.point("cluster.tasks_stopped")
        for task in tasks:
            self._statuses.report_if_restarting(task)

    def connector_failed(self, name: str, error: BaseException) -> None:
        self._statuses.report_not_started(name, error)

    def tasks_failed(self, tasks: Collection[TaskId], error: BaseException) -> None:
        for task in tasks:
            self._statuses.report_not_started(task, error)

    def stop_finished(self) -> None:
        self._on_stop_finished()
