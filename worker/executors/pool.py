"""The executor that runs connectors and tasks in processes.

The control process never runs plugin code. Connectors and tasks share a number of processes (``task.executors``), which are
started when they are needed; some have a process of their own, because they asked for it (``task.isolation``) or because
processes crashed while they ran in them. A process that exits is replaced, and what ran in it restarts there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from connect.errors import ConnectError, DataError, IllegalStateError
from worker.cancellation import Cancellation
from worker.config.plugin_path import find_environments
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.executor import ConnectorFacts, ConnectorSpec, ExecutorFigures, ExecutorListener, TaskSpec, WorkerServices
from worker.executors.channel import ChannelClosedError
from worker.executors.connector_queues import ConnectorQueues, QueueKind
from worker.executors.crash_recovery import CrashRecovery
from worker.executors.deadlines import Deadlines
from worker.executors.futures import all_done, done, fail, failed, pass_on, succeed
from worker.executors.messages import (
    connector_to_plain,
    id_to_plain,
    offsets_to_plain,
    task_configs_of_plain,
    task_to_plain,
)
from worker.executors.placement import CrashHistory
from worker.executors.plugin_queries import PluginQueries
from worker.executors.pool_figures import PoolFigures
from worker.executors.pool_progress import PoolProgress
from worker.executors.process_handle import ProcessExit, ProcessHandle
from worker.executors.process_registry import ProcessRegistry
from worker.executors.state_reports import StateReports
from worker.executors.stop_requests import ANSWER_MARGIN_S, StopRequests
from worker.executors.work_placer import WorkPlacer
from worker.executors.work_registry import ConnectorEntry, Entry, TaskEntry, WorkRegistry
from worker.model import PreviewRequest, SystemQuestion, TargetState, TaskId, TaskProgress, TaskSignal
from worker.storage.offset_store import OffsetPair

log = logging.getLogger(__name__)

_SIGNAL_TIMEOUT_S = 10.0
_READY_TIMEOUT_S = 60.0


class ExecutorPool:
    """Implements :class:`worker.executor.Executor` over processes.

    Requests for one connector are queued with the registry's lock held, so that the queue has them in the order in which they
    changed the registry.
    """

    def __init__(self, config: WorkerConfig, services: WorkerServices, listener: ExecutorListener, mask: SecretMask) -> None:
        self._config = config
        self._mask = mask
        environments = find_environments(config.plugin_path)
        deadlines = Deadlines("executor-deadlines")
        self._registry = WorkRegistry()
        self._lock = self._registry.lock
        self._queues = ConnectorQueues(deadlines)
        self._reports = StateReports(self._registry, listener, mask)
        self._recovery = CrashRecovery(self._registry, self._reports, CrashHistory(time.monotonic), self._queue_start)
        self._processes = ProcessRegistry(config, self._registry, listener, services, mask, self._on_exit)
        self._queries = PluginQueries(self._processes, environments)
        self._placer = WorkPlacer(self._registry, self._processes, environments, self._reports, self._recovery.quarantine_of)
        graceful_timeout_s = config.task_shutdown_graceful_timeout_ms / 1000
        self._stops = StopRequests(self._registry, self._processes, self._queues, deadlines, graceful_timeout_s)
        self._figures = PoolFigures(self._registry, self._processes)
        self._progress = PoolProgress(self._registry)
        self._closed = False

    def start(self) -> None:
        self._processes.start()

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        secret_keys: list[str] | None = None
        while secret_keys is None:
            first = self._processes.first
            try:
                secret_keys = first.ready.result(max(0.0, deadline - time.monotonic()))
            except FutureTimeout as e:
                raise ConnectError(f"No executor process was ready within {_READY_TIMEOUT_S:g} s") from e
            except ConnectError:
                # The process's socket closes before the reason is known.
                if not first.ended.wait(ANSWER_MARGIN_S) or not first.exit_is_excused:
                    raise
        self._mask.add(self._config.originals, secret_keys)

    # --- queries about plugins

    def facts(self, class_name: str, environment: str | None = None) -> ConnectorFacts:
        return self._queries.facts(class_name, environment)

    def validate(self, config: Mapping[str, Any], values: Mapping[str, str | None]) -> dict[str, Any]:
        return self._queries.validate(config, values)

    def external_system(
        self, values: Mapping[str, str | None], question: SystemQuestion, secrets: Collection[str], cancellation: Cancellation
    ) -> dict[str, Any]:
        return self._queries.external_system(values, question, secrets, cancellation)

    def preview(self, values: Mapping[str, str | None], request: PreviewRequest) -> dict[str, Any]:
        return self._queries.preview(values, request)

    def plugins(self, *, connectors_only: bool) -> list[dict[str, str]]:
        return self._queries.plugins(connectors_only=connectors_only)

    def plugin_config(self, plugin: str, version: str | None) -> list[dict[str, Any]]:
        return self._queries.plugin_config(plugin, version)

    def dead_letters(self, spec: ConnectorSpec, request: Mapping[str, Any]) -> dict[str, Any]:
        return self._queries.dead_letters(spec, request)

    # --- connectors

    def start_connector(self, start_id: int, spec: ConnectorSpec, target: TargetState) -> Future[None]:
        entry = ConnectorEntry(start_id, spec, target)
        with self._lock:
            if self._closed:
                return failed(ConnectError("The worker is shutting down"))
            before = self._registry.take_connector(spec.name)
            self._registry.connectors[spec.name] = entry
            if before is not None:
                self._stops.queue_stop(QueueKind.CALLS, [before])
            self._queue_start(entry)
        return entry.started

    def _queue_start(self, entry: Entry) -> None:
        if isinstance(entry, ConnectorEntry):
            self._queues.submit(QueueKind.CALLS, entry.name, lambda: self._start_connector(entry))
        else:
            self._queues.submit(QueueKind.TASKS, entry.name, lambda: self._start_task(entry))

    def _start_connector(self, entry: ConnectorEntry) -> None:
        process = self._placer.place(entry)
        if process is None:
            fail(entry.started, ConnectError(f"Connector {entry.name} was stopped before it started"))
            return
        target = entry.target.value
        request = process.call("start_connector", start_id=entry.start_id, spec=connector_to_plain(entry.spec), target=target)
        request.add_done_callback(lambda _: self._on_connector_started(entry, request))

    def _on_connector_started(self, entry: ConnectorEntry, request: Future[Any]) -> None:
        error = request.exception()
        if isinstance(error, ChannelClosedError):
            return  # handled with the exit of the process
        if error is not None:
            fail(entry.started, error)
            return
        succeed(entry.started, None)
        if entry.is_reconfiguration_due:
            entry.is_reconfiguration_due = False
            self._reports.reconfiguration(entry)

    def set_connector_target(self, name: str, target: TargetState) -> Future[None]:
        outer: Future[None] = Future()
        with self._lock:
            entry = self._registry.connectors.get(name)
            if entry is None:
                return done()
            self._queues.submit(QueueKind.CALLS, name, lambda: self._set_target(entry, target, outer))
        return outer

    def _set_target(self, entry: ConnectorEntry, target: TargetState, outer: Future[None]) -> None:
        entry.target = target
        process = entry.process
        if process is None:
            # Its process exited, and the connector has FAILED for that.
            if target is TargetState.STARTED:
                entry.started = outer
                self._start_connector(entry)
                return
            if target is TargetState.STOPPED:
                entry.failed = False
                self._reports.stopped(entry)
            succeed(outer, None)
            return
        request = process.call("set_connector_target", name=entry.name, target=target.value)
        if target is not TargetState.STARTED:
            self._stops.require_answer(process, request)

        def on_answer(_: Future[Any]) -> None:
            error = request.exception()
            # When its process has exited in the meantime, it restarts with this target.
            if error is None or isinstance(error, ChannelClosedError):
                succeed(outer, None)
            else:
                fail(outer, error)

        request.add_done_callback(on_answer)

    def stop_connector(self, name: str) -> Future[None]:
        with self._lock:
            entry = self._registry.take_connector(name)
            return done() if entry is None else self._stops.queue_stop(QueueKind.CALLS, [entry])

    def task_configs(self, name: str) -> Future[list[dict[str, str]]]:
        outer: Future[list[dict[str, str]]] = Future()
        missing = IllegalStateError(f"Connector {name} does not run on this worker")
        with self._lock:
            entry = self._registry.connectors.get(name)
            if entry is None:
                return failed(missing)
            self._queues.submit(QueueKind.CALLS, name, lambda: self._request_task_configs(entry, outer, missing))
        return outer

    def _request_task_configs(self, entry: ConnectorEntry, outer: Future[list[dict[str, str]]], missing: Exception) -> None:
        with self._lock:
            process = entry.process
            # Its process has just exited, and its restart is not queued yet: the caller asks again after it, as below.
            is_restarting = process is None and not entry.failed and self._registry.is_current(entry)
            entry.is_reconfiguration_due |= is_restarting
        if process is None:
            fail(outer, ChannelClosedError("The process of the executor has ended") if is_restarting else missing)
            return
        request = process.call("task_configs", name=entry.name)

        def on_lost(_: Future[Any]) -> None:
            if not isinstance(request.exception(), ChannelClosedError):
                return
            # The caller is notified once there is an instance again that can answer.
            with self._lock:
                is_back = entry.process is not None and entry.process is not process and entry.started.done()
                entry.is_reconfiguration_due = not is_back
            if is_back:
                self._reports.reconfiguration(entry)

        request.add_done_callback(on_lost)
        pass_on(request, outer, task_configs_of_plain)

    def alter_offsets(self, spec: ConnectorSpec, offsets: Sequence[OffsetPair], *, reset: bool = False) -> Future[bool]:
        outer: Future[bool] = Future()

        def alter() -> None:
            try:
                process = self._placer.process_for_query(self._registry.connectors.get(spec.name), spec)
                plain = offsets_to_plain(offsets)
                request = process.call("alter_offsets", spec=connector_to_plain(spec), offsets=plain, reset=reset)
            except ConnectError as e:
                fail(outer, e)
                return
            pass_on(request, outer, _bool_of_plain)

        with self._lock:
            self._queues.submit(QueueKind.CALLS, spec.name, alter)
        return outer

    # --- tasks

    def start_task(self, start_id: int, spec: TaskSpec) -> None:
        entry = TaskEntry(start_id, spec, spec.paused)
        with self._lock:
            if self._closed:
                return
            before = self._registry.take_tasks([spec.id])
            self._registry.tasks[spec.id] = entry
            if before:
                self._stops.queue_stop(QueueKind.TASKS, before)
            self._queue_start(entry)

    def _start_task(self, entry: TaskEntry) -> None:
        process = self._placer.place(entry)
        if process is not None:
            process.notify("start_task", start_id=entry.start_id, spec=task_to_plain(entry.spec) | {"paused": entry.paused})

    def set_task_paused(self, task: TaskId, paused: bool) -> None:
        with self._lock:
            entry = self._registry.tasks.get(task)
            if entry is None:
                return
            current = entry

            def pause() -> None:
                current.paused = paused
                if current.process is not None:
                    current.process.notify("set_task_paused", task=id_to_plain(task), paused=paused)

            self._queues.submit(QueueKind.TASKS, task.connector, pause)

    def stop_tasks(self, tasks: Collection[TaskId]) -> Future[None]:
        stops = []
        with self._lock:
            for name in dict.fromkeys(task.connector for task in tasks):
                entries = self._registry.take_tasks([task for task in tasks if task.connector == name])
                if entries:
                    stops.append(self._stops.queue_stop(QueueKind.TASKS, entries))
        return all_done(stops)

    def progress(self, task: TaskId) -> TaskProgress | None:
        return self._progress.collect([task]).get(task)

    def progress_of(self, tasks: Collection[TaskId]) -> Mapping[TaskId, TaskProgress]:
        return self._progress.collect(tasks)

    def figures(self, timeout_s: float) -> list[ExecutorFigures]:
        return self._figures.collect(timeout_s)

    def signal_task(self, task: TaskId, signal: TaskSignal) -> bool:
        with self._lock:
            entry = self._registry.tasks.get(task)
            process = None if entry is None else entry.process
        if process is None:
            return False
        answer = process.call("signal_task", task=id_to_plain(task), id=signal.id, type=signal.type, data=signal.data)
        try:
            return bool(answer.result(_SIGNAL_TIMEOUT_S))
        except FutureTimeout as e:
            raise ConnectError(f"The process of task {task} does not answer; it may or may not get signal {signal.id}") from e

    # --- processes

    def _on_exit(self, process: ProcessHandle, exit_: ProcessExit) -> None:
        self._processes.remove(process)
        with self._lock:
            if self._closed:
                process.is_cleaned_up = True
                return
        self._recovery.recover(process, exit_)

    def set_log_level(self, namespace: str, level: str) -> None:
        self._processes.set_log_level(namespace, level)

    def close(self, timeout_s: float) -> None:
        with self._lock:
            self._closed = True
            starts = [entry.started for entry in self._registry.connectors.values()]
        for started in starts:
            fail(started, ConnectError("The worker is shutting down"))
        self._processes.close(timeout_s)


def _bool_of_plain(plain: Any) -> bool:
    if not isinstance(plain, bool):
        raise DataError("not a boolean")
    return plain
