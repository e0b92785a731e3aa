"""An executor whose connectors and tasks are threads of this process."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Any

from connect.connector import Connector, SinkConnector, SourceConnector
from connect.errors import BadRequestError, ConfigError, IllegalStateError
from connect.plugins import Kind, PluginDesc, Plugins
from connect.record import TopicPartition
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.config.worker_converters import checked_secret_keys
from worker.executor import ConnectorFacts, ConnectorSpec, ExecutorListener, TaskSpec, WorkerServices
from worker.executors.connector_instance import ConnectorClass, ConnectorInstance
from worker.executors.deadlines import Deadlines
from worker.executors.futures import all_done, done, failed
from worker.executors.serial_queue import Lane
from worker.executors.task_configs import task_class_of
from worker.executors.task_factory import TaskFactory, TaskRequest
from worker.executors.task_slot import TaskSlot
from worker.kafka.topic_creation import topic_creation_rules
from worker.model import TargetState, TaskId, TaskProgress
from worker.storage.offset_store import OffsetPair
from worker.tasks.worker_task import TaskListener, WorkerTask
from worker.validation import Check, DiscoveredCatalogue, cluster_check, plugin_config, plugin_list, validate

log = logging.getLogger(__name__)

_CUT_S = 0.5
"""How much longer than the graceful timeout a lane waits for tasks before it takes itself for stuck: they are cut off by then."""


class _Place:
    """What one connector has here: its instance and tasks, and a lane for the calls of each kind."""

    def __init__(self, name: str, deadlines: Deadlines, on_idle: Callable[[], None]) -> None:
        self.instance: ConnectorInstance | None = None
        self.tasks: dict[TaskId, TaskSlot] = {}
        self.calls = Lane(f"connector-{name}", name, deadlines, on_idle)
        self.starts = Lane(f"tasks-{name}", name, deadlines, on_idle)
        """Starts and stops of tasks. They do not wait for the instance's calls, nor those for them."""

    @property
    def empty(self) -> bool:
        return self.instance is None and not self.tasks and self.calls.idle and self.starts.idle


class LocalExecutor:
    """Implements :class:`worker.executor.Executor`. An instance's code runs in the lane of its connector, a task's on the
    task's own thread; there is no thread for a connector that has nothing to do."""

    def __init__(
        self,
        config: WorkerConfig,
        plugins: Plugins,
        services: WorkerServices,
        listener: ExecutorListener,
        mask: SecretMask,
    ) -> None:
        """``mask`` hides what is secret in what is told of failures."""
        self._plugins = plugins
        self._config = config
        self._services = services
        self._listener = listener
        self._mask = mask
        self._catalogue = DiscoveredCatalogue(plugins)
        self._check = _check_of(config)
        self._factory = TaskFactory(config, plugins, services, mask)
        self._graceful_s = config.task_shutdown_graceful_timeout_ms / 1000
        self._deadlines = Deadlines("executor-deadlines")
        self._lock = threading.Lock()  # for the places and what is in them; never held while a plugin runs
        self._places: dict[str, _Place] = {}

    def start(self) -> None:
        """There is nothing to begin."""

    def wait_until_ready(self) -> None:
        self._mask.add(self._config.originals, checked_secret_keys(self._config, self._plugins))

    # --- questions about plugins, on the caller's thread

    def facts(self, class_name: str, environment: str | None = None) -> ConnectorFacts:
        desc = self._plugins.resolve(Kind.CONNECTOR, class_name)
        shares = self._plugins.load(desc).shares_executor
        return ConnectorFacts(desc.class_name, desc.type, _version(desc), shares)

    def validate(self, config: Mapping[str, Any], values: Mapping[str, str | None]) -> dict[str, Any]:
        return validate(config, self._config, self._catalogue, resolve=lambda _: values, check=self._check)

    def plugins(self, *, connectors_only: bool) -> list[dict[str, str]]:
        return plugin_list(self._catalogue, connectors_only=connectors_only)

    def plugin_config(self, plugin: str, version: str | None) -> list[dict[str, Any]]:
        return plugin_config(plugin, self._catalogue, version)

    # --- connectors. Jobs are queued with the lock held: what is asked for a connector is done in that order.

    def start_connector(self, run: int, spec: ConnectorSpec, target: TargetState) -> Future[None]:
        with self._lock:
            place = self._place(spec.name)
            before = place.instance
            instance = place.instance = ConnectorInstance(
                run, spec, self._class_to_run, self._listener, self._services.offsets, self._mask, place.calls.submit
            )
            if before is not None:
                # A job of its own: should it hang and be abandoned, the start behind it does not come when nobody waits for it.
                place.calls.submit(before.end)
            return place.calls.submit(lambda: instance.follow(target))

    def set_connector_target(self, name: str, target: TargetState) -> Future[None]:
        with self._lock:
            place = self._places.get(name)
            instance = None if place is None else place.instance
            if place is None or instance is None:
                return done()
            if target is TargetState.STARTED:
                return place.calls.submit(lambda: instance.follow(target))

            def give_up() -> None:
                self._tell_abandoned(name)
                instance.abandon()
                instance.tell_stopped(target)

            return place.calls.submit_within(self._graceful_s, lambda: instance.follow(target), give_up)

    def stop_connector(self, name: str) -> Future[None]:
        with self._lock:
            place = self._places.get(name)
            instance = None if place is None else place.instance
            if place is None or instance is None:
                return done()
            place.instance = None

            def give_up() -> None:
                self._tell_abandoned(name)
                instance.end_abandoned()

            return place.calls.submit_within(self._graceful_s, instance.end, give_up)

    def _tell_abandoned(self, name: str) -> None:
        log.error(
            "Connector %s did not stop within %d ms (task.shutdown.graceful.timeout.ms) and is abandoned: nothing that it still "
            "says is listened to",
            name,
            self._graceful_s * 1000,
        )

    def task_configs(self, name: str) -> Future[list[dict[str, str]]]:
        missing = IllegalStateError(f"Connector {name} does not run on this worker")
        with self._lock:
            place = self._places.get(name)
            instance = None if place is None else place.instance
            if place is None or instance is None:
                return failed(missing)

            def ask() -> list[dict[str, str]]:
                if (configs := instance.task_configs()) is None:
                    raise missing
                return configs

            return place.calls.submit(ask)

    def alter_offsets(self, spec: ConnectorSpec, offsets: Sequence[OffsetPair]) -> Future[bool]:
        with self._lock:
            return self._place(spec.name).calls.submit(lambda: _altered(self._class_of(spec).type(), spec, offsets))

    def _class_of(self, spec: ConnectorSpec) -> ConnectorClass:
        desc = self._plugins.resolve(Kind.CONNECTOR, spec.config.get("connector.class", ""))
        return ConnectorClass(self._plugins.load(desc), desc.class_name, _version(desc))

    def _class_to_run(self, spec: ConnectorSpec) -> ConnectorClass:
        loaded = self._class_of(spec)
        if issubclass(loaded.type, SourceConnector) and self._config.topic_creation_enable:
            # What is wrong with these fails the connector, as in Apache's worker: validation does not look at them.
            topic_creation_rules(spec.config)
        return loaded

    # --- tasks

    def start_task(self, run: int, spec: TaskSpec) -> None:
        slot = TaskSlot(run, spec, self._listener, self._mask)
        with self._lock:
            place = self._place(spec.id.connector)
            before = place.tasks.get(spec.id)
            place.tasks[spec.id] = slot
            if before is not None:
                # A herder stops a task before it starts it anew. Should it not have: there must never be two (promise 4).
                self._stop(place, [before])
            place.starts.submit(lambda: slot.begin(partial(self._create, run, spec)))

    def _create(self, run: int, spec: TaskSpec, listener: TaskListener, paused: bool) -> WorkerTask:
        loaded = self._class_of(spec.connector)
        if not issubclass(loaded.type, SourceConnector | SinkConnector):
            raise ConfigError(f"Connector {spec.connector.name} is neither a source nor a sink: {loaded.name}")
        task_class = task_class_of(loaded.type, spec.config)
        request = TaskRequest(
            spec.id,
            loaded.type,
            task_class,
            spec.connector.config,
            spec.config,
            loaded.version,
            paused,
            spec.transactional_id,
            run,
        )
        return self._factory.create(request, listener)

    def set_task_paused(self, task: TaskId, paused: bool) -> None:
        slot = self._slot(task)
        if slot is not None:
            slot.set_paused(paused)

    def stop_tasks(self, tasks: Collection[TaskId]) -> Future[None]:
        stopping = []
        with self._lock:
            for name in dict.fromkeys(task.connector for task in tasks):
                place = self._places.get(name)
                slots = [] if place is None else [place.tasks.pop(task) for task in tasks if task in place.tasks]
                if place is not None and slots:
                    stopping.append(self._stop(place, slots))
        return all_done(stopping)

    def _stop(self, place: _Place, slots: Sequence[TaskSlot]) -> Future[None]:
        deadline = time.monotonic() + self._graceful_s
        for slot in slots:
            slot.stop()  # at once: a start that is still to come is none then

        def end() -> None:
            for slot in slots:
                if not slot.join(deadline):
                    slot.cut_off()

        def give_up() -> None:
            for slot in slots:
                slot.cut_off()

        return place.starts.submit_within(self._graceful_s + _CUT_S, end, give_up)

    def progress(self, task: TaskId) -> TaskProgress | None:
        slot = self._slot(task)
        return None if slot is None else slot.progress()

    def _slot(self, task: TaskId) -> TaskSlot | None:
        with self._lock:
            place = self._places.get(task.connector)
            return None if place is None else place.tasks.get(task)

    # --- all of them

    def set_log_level(self, namespace: str, level: str) -> None:
        """The loggers of an executor that is threads are the worker's own."""

    def close(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        with self._lock:
            tasks = [task for place in self._places.values() for task in place.tasks]
        _wait(self.stop_tasks(tasks), deadline)
        with self._lock:
            names = list(self._places)
        _wait(all_done([self.stop_connector(name) for name in names]), deadline)

    def _place(self, name: str) -> _Place:
        if name not in self._places:
            self._places[name] = _Place(name, self._deadlines, lambda: self._forget_empty(name))
        return self._places[name]

    def _forget_empty(self, name: str) -> None:
        with self._lock:
            place = self._places.get(name)
            if place is not None and place.empty:
                del self._places[name]


def _check_of(config: WorkerConfig) -> Check | None:
    if config.distributed is None:
        return None
    return cluster_check(config.distributed)


def _version(desc: PluginDesc) -> str | None:
    return None if desc.version == "unknown" else desc.version


def _altered(connector: Connector, spec: ConnectorSpec, offsets: Sequence[OffsetPair]) -> bool:
    if isinstance(connector, SourceConnector):
        asked: dict[Any, Mapping[str, Any] | None]
        asked = {None if partition is None else tuple(partition.items()): offset for partition, offset in offsets}
        return connector.alter_offsets(spec.config, asked)
    if isinstance(connector, SinkConnector):
        return connector.alter_offsets(spec.config, dict(_sink_offset(partition, offset) for partition, offset in offsets))
    raise BadRequestError(f"Connector {spec.name} is neither a source nor a sink")


def _sink_offset(partition: Mapping[str, Any] | None, offset: Mapping[str, Any] | None) -> tuple[TopicPartition, int | None]:
    place = partition or {}
    of = TopicPartition(place["kafka_topic"], place["kafka_partition"])
    return of, None if offset is None else offset["kafka_offset"]


def _wait(future: Future[None], deadline: float) -> None:
    wait([future], max(0.0, deadline - time.monotonic()))
