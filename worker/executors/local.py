"""The executor that runs connectors and tasks on threads of this process."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import TYPE_CHECKING, Any

from connect.connector import Connector, SinkConnector, SourceConnector
from connect.errors import BadRequestError, ConfigError, IllegalStateError
from connect.plugins import Kind, PluginDesc, Plugins
from connect.record import TopicPartition
from worker.cancellation import Cancellation
from worker.config.secret_keys import load_worker_secret_keys
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.executor import ConnectorFacts, ConnectorSpec, ExecutorFigures, ExecutorListener, TaskSpec, WorkerServices
from worker.executors.connector_instance import ConnectorClass, ConnectorInstance
from worker.executors.connector_queues import ConnectorQueues, QueueKind
from worker.executors.deadlines import Deadlines
from worker.executors.futures import all_done, done, failed
from worker.executors.plugin_figures import PluginFiguresReader
from worker.executors.stall_watch import StallCheck, StallWatch
from worker.executors.task_configs import find_task_class
from worker.executors.task_factory import TaskFactory, TaskRequest
from worker.executors.task_progress import read_progress
from worker.executors.task_slot import TaskSlot
from worker.kafka.topic_creation import topic_creation_rules
from worker.model import PreviewRequest, SystemQuestion, TargetState, TaskId, TaskProgress, TaskSignal
from worker.observability.stalls import StallSettings
from worker.storage.offset_store import OffsetPair
from worker.tasks.worker_task import TaskListener, WorkerTask
from worker.validation import DiscoveredPluginIndex, WorkerCheck, cluster_check, list_plugins, plugin_config, validate

if TYPE_CHECKING:
    from worker.observability.tracing.tracing import Tracing

log = logging.getLogger(__name__)

CONTROL = "control"
"""The name of the process that runs this executor without others (:class:`worker.executor.ExecutorFigures`)."""
_PROGRESS_TIMEOUT_S = 2.0
_ABANDON_MARGIN_S = 0.5
"""How much longer than the graceful timeout a queue waits for the tasks that it stops: by then they are abandoned anyway."""


class LocalExecutor:
    """Implements :class:`worker.executor.Executor`.

    The code of a connector instance runs in the connector's queue, that of a task on the task's own thread. A connector that has
    nothing to do has no thread. Jobs are queued with the lock held, so that requests for a connector run in their order.
    """

    def __init__(
        self,
        config: WorkerConfig,
        plugins: Plugins,
        services: WorkerServices,
        listener: ExecutorListener,
        mask: SecretMask,
        factory: TaskFactory | None = None,
        *,
        tracing: Tracing | None = None,
        checks_stalls: bool = False,
    ) -> None:
        """``mask`` hides secrets in reported failures. ``factory`` creates the tasks; by default, tasks that use Kafka. The
        executor closes ``tracing``, which they use. With ``checks_stalls``, a thread of this executor calls
        :meth:`check_stalls`."""
        self._plugins = plugins
        self._config = config
        self._services = services
        self._listener = listener
        self._mask = mask
        self._plugin_index = DiscoveredPluginIndex(plugins)
        self._check = _check_of(config)
        self._factory = factory or TaskFactory(config, plugins, services, mask, tracing)
        self._graceful_s = config.task_shutdown_graceful_timeout_ms / 1000
        self._queues = ConnectorQueues(Deadlines("executor-deadlines"))
        self._lock = threading.Lock()  # for the two dicts; never held while a plugin runs
        self._instances: dict[str, ConnectorInstance] = {}
        self._tasks: dict[TaskId, TaskSlot] = {}
        self._stalls = StallWatch(listener, self._find_stalls, has_thread=checks_stalls)
        self._plugin_figures = PluginFiguresReader(mask)

    def start(self) -> None:
        """Starts the thread that checks for stalls, if there is one. Other threads start when they are needed."""
        self._stalls.start()

    def wait_until_ready(self) -> None:
        self._mask.add(self._config.originals, load_worker_secret_keys(self._config, self._plugins))

    # --- queries about plugins, on the caller's thread

    def facts(self, class_name: str, environment: str | None = None) -> ConnectorFacts:
        desc = self._plugins.resolve(Kind.CONNECTOR, class_name)
        self._plugins.load(desc)  # so that a class that cannot be imported is an error here already
        return ConnectorFacts(desc.class_name, desc.type, _version(desc))

    def validate(self, config: Mapping[str, Any], values: Mapping[str, str | None]) -> dict[str, Any]:
        return validate(config, self._config, self._plugin_index, resolve=lambda _: values, check=self._check)

    def preview(self, values: Mapping[str, str | None], request: PreviewRequest) -> dict[str, Any]:
        # Imported when it is needed: no task needs it.
        from worker.executors.previews import preview

        return preview(values, self._config, self._plugins, request)

    def external_system(
        self, values: Mapping[str, str | None], question: SystemQuestion, secrets: Collection[str], cancellation: Cancellation
    ) -> dict[str, Any]:
        from worker.validation.external_systems import answer_about_system

        return answer_about_system(self._plugins, values, question, secrets, cancellation)

    def plugins(self, *, connectors_only: bool) -> list[dict[str, str]]:
        return list_plugins(self._plugin_index, connectors_only=connectors_only)

    def plugin_config(self, plugin: str, version: str | None) -> list[dict[str, Any]]:
        return plugin_config(plugin, self._plugin_index, version)

    def dead_letters(self, spec: ConnectorSpec, request: Mapping[str, Any]) -> dict[str, Any]:
        # Imported when it is needed: few workers are ever asked.
        from worker.executors.dead_letter_requests import answer_dead_letter_request

        return answer_dead_letter_request(self._config, self._plugins, self._mask, spec, request)

    # --- connectors

    def start_connector(self, start_id: int, spec: ConnectorSpec, target: TargetState) -> Future[None]:
        with self._lock:
            before = self._instances.get(spec.name)
            instance = self._instances[spec.name] = ConnectorInstance(
                start_id,
                spec,
                self._class_to_run,
                self._listener,
                self._services.offsets,
                self._mask,
                lambda job: self._queues.submit(QueueKind.CALLS, spec.name, job),
                self._stall_settings(spec),
            )
            if before is not None:
                # A job of its own: should it hang and be abandoned, the queue continues with the start behind it.
                self._queues.submit(QueueKind.CALLS, spec.name, before.end)
            return self._queues.submit(QueueKind.CALLS, spec.name, lambda: instance.follow(target))

    def set_connector_target(self, name: str, target: TargetState) -> Future[None]:
        with self._lock:
            instance = self._instances.get(name)
            if instance is None:
                return done()
            if target is TargetState.STARTED:
                return self._queues.submit(QueueKind.CALLS, name, lambda: instance.follow(target))

            def give_up() -> None:
                self._log_abandoned(name)
                instance.abandon()
                instance.report_stopped(target)

            return self._queues.submit_within(QueueKind.CALLS, name, self._graceful_s, lambda: instance.follow(target), give_up)

    def stop_connector(self, name: str) -> Future[None]:
        with self._lock:
            instance = self._instances.pop(name, None)
            if instance is None:
                return done()

            def give_up() -> None:
                self._log_abandoned(name)
                instance.end_abandoned()

            return self._queues.submit_within(QueueKind.CALLS, name, self._graceful_s, instance.end, give_up)

    def _log_abandoned(self, name: str) -> None:
        log.error(
            "Connector %s did not stop within %d ms (task.shutdown.graceful.timeout.ms) and is abandoned; further events from it "
            "are ignored",
            name,
            self._graceful_s * 1000,
        )

    def task_configs(self, name: str) -> Future[list[dict[str, str]]]:
        missing = IllegalStateError(f"Connector {name} does not run on this worker")
        with self._lock:
            instance = self._instances.get(name)
            if instance is None:
                return failed(missing)

            def request() -> list[dict[str, str]]:
                if (configs := instance.task_configs()) is None:
                    raise missing
                return configs

            return self._queues.submit(QueueKind.CALLS, name, request)

    def alter_offsets(self, spec: ConnectorSpec, offsets: Sequence[OffsetPair], *, reset: bool = False) -> Future[bool]:
        with self._lock:
            return self._queues.submit(
                QueueKind.CALLS, spec.name, lambda: _alter_offsets(self._class_of(spec).type(), spec, offsets, reset=reset)
            )

    def _class_of(self, spec: ConnectorSpec) -> ConnectorClass:
        desc = self._plugins.resolve(Kind.CONNECTOR, spec.config.get("connector.class", ""))
        return ConnectorClass(self._plugins.load(desc), desc.class_name, _version(desc))

    def _class_to_run(self, spec: ConnectorSpec) -> ConnectorClass:
        loaded = self._class_of(spec)
        if issubclass(loaded.type, SourceConnector) and self._config.topic_creation_enable:
            # An error in these fails the connector, as in Apache's worker: validation does not check them.
            topic_creation_rules(spec.config)
        return loaded

    # --- tasks

    def start_task(self, start_id: int, spec: TaskSpec) -> None:
        slot = TaskSlot(start_id, spec, self._listener, self._mask, self._stall_settings(spec.connector))
        with self._lock:
            before = self._tasks.get(spec.id)
            self._tasks[spec.id] = slot
            if before is not None:
                # A herder stops a task before it restarts it. Should it not have: there must never be two (promise 4).
                self._stop(spec.id.connector, [before])
            self._queues.submit(QueueKind.TASKS, spec.id.connector, lambda: slot.start(partial(self._create, start_id, spec)))

    def _create(self, start_id: int, spec: TaskSpec, listener: TaskListener, paused: bool) -> WorkerTask:
        loaded = self._class_of(spec.connector)
        if not issubclass(loaded.type, SourceConnector | SinkConnector):
            raise ConfigError(f"Connector {spec.connector.name} is neither a source nor a sink: {loaded.name}")
        task_class = find_task_class(loaded.type, spec.config)
        request = TaskRequest(
            spec.id,
            loaded.type,
            task_class,
            spec.connector.config,
            spec.config,
            loaded.version,
            paused,
            spec.transactional_id,
            start_id,
        )
        return self._factory.create(request, listener)

    def set_task_paused(self, task: TaskId, paused: bool) -> None:
        slot = self._slot(task)
        if slot is not None:
            slot.set_paused(paused)

    def stop_tasks(self, tasks: Collection[TaskId]) -> Future[None]:
        stops = []
        with self._lock:
            for name in dict.fromkeys(task.connector for task in tasks):
                slots = [self._tasks.pop(task) for task in tasks if task.connector == name and task in self._tasks]
                if slots:
                    stops.append(self._stop(name, slots))
        return all_done(stops)

    def _stop(self, connector: str, slots: Sequence[TaskSlot]) -> Future[None]:
        deadline = time.monotonic() + self._graceful_s
        for slot in slots:
            slot.stop()  # at once, so that a start that is still queued does nothing

        def end() -> None:
            for slot in slots:
                if not slot.join(deadline):
                    slot.abandon()

        def give_up() -> None:
            for slot in slots:
                slot.abandon()

        timeout_s = self._graceful_s + _ABANDON_MARGIN_S
        return self._queues.submit_within(QueueKind.TASKS, connector, timeout_s, end, give_up)

    def progress(self, task: TaskId) -> TaskProgress | None:
        return self.progress_of([task]).get(task)

    def progress_of(self, tasks: Collection[TaskId], timeout_s: float = _PROGRESS_TIMEOUT_S) -> dict[TaskId, TaskProgress]:
        return read_progress([slot for task in tasks if (slot := self._slot(task)) is not None], timeout_s)

    def counts_of(self, tasks: Collection[TaskId]) -> dict[TaskId, TaskProgress]:
        """Returns the part of the progress of tasks that calls no plugin."""
        found = {task: slot.counts() for task in tasks if (slot := self._slot(task)) is not None}
        return {task: counts for task, counts in found.items() if counts is not None}

    def check_stalls(self) -> None:
        """Reports stalls, and those that have ended. Calls no plugin and never raises; call it from one thread at a time."""
        self._stalls.check()

    def _find_stalls(self) -> dict[str | TaskId, StallCheck]:
        with self._lock:
            slots, instances = list(self._tasks.values()), list(self._instances.values())
        found: dict[str | TaskId, StallCheck] = {one.spec.name: StallCheck(one.start_id, one.stall()) for one in instances}
        return found | {one.id: StallCheck(one.start_id, one.stall()) for one in slots}

    def _stall_settings(self, spec: ConnectorSpec) -> StallSettings:
        return StallSettings.of(spec.config, self._config.originals, self._config.offset_flush_interval_ms)

    def figures(self, timeout_s: float) -> list[ExecutorFigures]:
        with self._lock:
            slots = list(self._tasks.values())
        tasks = self._plugin_figures.add_to([(slot, found) for slot in slots if (found := slot.figures()) is not None], timeout_s)
        return [ExecutorFigures(CONTROL, os.getpid(), True, tasks)]

    def signal_task(self, task: TaskId, signal: TaskSignal) -> bool:
        slot = self._slot(task)
        return slot is not None and slot.signal(signal)

    def _slot(self, task: TaskId) -> TaskSlot | None:
        with self._lock:
            return self._tasks.get(task)

    # --- shutdown and logging

    def set_log_level(self, namespace: str, level: str) -> None:
        """Does nothing: the loggers of this executor are the worker's own."""

    def close(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        self._stalls.close()
        with self._lock:
            tasks = list(self._tasks)
        _wait(self.stop_tasks(tasks), deadline)
        with self._lock:
            names = list(self._instances)
        _wait(all_done([self.stop_connector(name) for name in names]), deadline)
        self._factory.close()


def _check_of(config: WorkerConfig) -> WorkerCheck | None:
    if config.distributed is None:
        return None
    return cluster_check(config.distributed)


def _version(desc: PluginDesc) -> str | None:
    return None if desc.version == "unknown" else desc.version


def _alter_offsets(connector: Connector, spec: ConnectorSpec, offsets: Sequence[OffsetPair], *, reset: bool) -> bool:
    if isinstance(connector, SourceConnector):
        asked: dict[Any, Mapping[str, Any] | None]
        asked = {None if partition is None else tuple(partition.items()): offset for partition, offset in offsets}
        return connector.alter_offsets(spec.config, asked)
    if isinstance(connector, SinkConnector):
        changes = dict(_sink_offset(partition, offset) for partition, offset in offsets)
        return (connector.reset_offsets if reset else connector.alter_offsets)(spec.config, changes)
    raise BadRequestError(f"Connector {spec.name} is neither a source nor a sink")


def _sink_offset(partition: Mapping[str, Any] | None, offset: Mapping[str, Any] | None) -> tuple[TopicPartition, int | None]:
    kafka_partition = partition or {}
    topic_partition = TopicPartition(kafka_partition["kafka_topic"], kafka_partition["kafka_partition"])
    return topic_partition, None if offset is None else offset["kafka_offset"]


def _wait(future: Future[None], deadline: float) -> None:
    wait([future], max(0.0, deadline - time.monotonic()))
