"""The herder of a standalone worker: configurations and states in memory, source offsets in a file.

Requests come from REST threads. They are checked and recorded under a lock that is held only briefly, and carried out by the
queues of the connectors (:mod:`worker.standalone.connector`), whose code runs in an executor. A connector that hangs blocks
itself only, and requests for two connectors cannot wait for each other (in Apache's standalone worker they can, see
kafka-connect.md, section 13).
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial
from typing import Any, TypeVar

from connect.errors import (
    AlreadyExistsError,
    ConnectError,
    NotFoundError,
    UnsupportedError,
)
from connect.plugins import Plugins
from worker.config.isolation import ENVIRONMENT
from worker.config.plugin_path import extend_python_path
from worker.config.reload_timer import ReloadTimer
from worker.config.resolved_config import ResolvedConfigs
from worker.config.secrets import mask_error
from worker.config.startup_warnings import find_startup_warnings
from worker.config.worker_config import WorkerConfig
from worker.errors.config import error_settings
from worker.executors.factory import make_executor
from worker.kafka.cluster import Cluster
from worker.kafka.topic_creation import topic_creation_rules
from worker.model import (
    ConnectorInfo,
    ConnectorStatus,
    Health,
    OffsetEntry,
    Origin,
    RequestSignature,
    RestartPlan,
    Stall,
    State,
    Status,
    TargetState,
    TaskId,
    TaskInfo,
    TaskSignal,
)
from worker.observability.herder_activity import TIMED_OUT
from worker.observability.loggers import Loggers
from worker.observability.worker_metrics.start_counts import StartCounts
from worker.operations.auto_restart import AutoRestart, RestartPolicy
from worker.operations.herder_operations import HerderOperations
from worker.operations.history.memory import MemoryHistory
from worker.operations.offsets.changes import require_offsets, require_stopped
from worker.operations.restart_plan import planned_restart, to_restart
from worker.operations.shutdown import close_all
from worker.standalone.condition import StandaloneCondition
from worker.standalone.connector import ConnectorDefinition, ConnectorDependencies, StandaloneConnector
from worker.standalone.services import NO_EXACTLY_ONCE, StandaloneServices
from worker.storage.documents import documents_beside
from worker.storage.file_offset_store import OffsetFile

T = TypeVar("T")

log = logging.getLogger(__name__)

_REQUEST_TIMEOUT_S = 80.0
"""Below the 90 seconds after which REST gives up."""
_CLOSE_S = 2.0
_KILL_S = 5.0
"""The time to kill processes that do not end."""


class StandaloneHerder(HerderOperations):
    """Implements :class:`worker.herder.Herder` for one process."""

    def __init__(
        self,
        config: WorkerConfig,
        *,
        worker_id: str | None = None,
        plugins: Plugins | None = None,
    ) -> None:
        """Opens the offset file, and starts executor processes. Raises ConfigError when another worker uses the file, or it is
        damaged. The creator closes the herder, also when :meth:`start` fails."""
        self._lock = threading.Lock()
        self._connectors: dict[str, StandaloneConnector] = {}
        self._former_topics: dict[str, Sequence[str]] = {}
        """The topics of deleted connectors, which Apache's worker lists until they are reset or it ends."""
        self._configs: dict[str, dict[str, str]] = {}
        self._ready = self._closed = False
        worker_id, mask = worker_id or config.worker_id, config.providers.mask
        self._warnings = [*find_startup_warnings(config.originals), *extend_python_path(config.plugin_path)]
        self._store = OffsetFile(config.offset_storage_file_filename)
        self._reloads = ReloadTimer(self._reload)
        self._values = ResolvedConfigs(config.providers, self._reloads)
        services, starts = StandaloneServices(self._store), StartCounts(_ExecutorReports(self._find))
        executor = make_executor(config, plugins, services, starts, mask)
        loggers, history = Loggers(), MemoryHistory(config.config_history_size)
        cluster = Cluster(config.bootstrap_servers, config.originals)
        condition = StandaloneCondition(config, worker_id, self._lock, self._connectors, lambda: self._ready)
        running = partial(_running_configs, self._lock, self._connectors, self._configs)
        own = starts, partial(documents_beside, self._store.path), running
        super().__init__(config, worker_id, executor, self._values, loggers, history, cluster, condition, *own)
        self._auto_restart = AutoRestart(config, self._restart_failed)
        start_id = partial(next, itertools.count(1))
        self._dependencies = ConnectorDependencies(worker_id, executor, self._values, mask, start_id, self._auto_restart)
        loggers.on_change(executor.set_log_level)
        # Already here: processes start while the rest of the worker is built.
        executor.start()

    def start(self) -> None:
        """Starts the background threads, and logs warnings about misleading settings. Raises ConfigError when the worker's
        converters cannot be loaded."""
        for warning in self._warnings:
            log.warning("%s", warning)
        self._executor.wait_until_ready()
        self._reloads.start()
        self._auto_restart.start()
        self._cluster.start()
        self._verification_schedule.start()

    def started(self) -> None:
        """Marks the startup as complete: the worker is healthy from now on, and ``connectors.dir`` is applied."""
        self._ready = True
        if self._directory is not None:
            self._directory.start()

    def timeout_message(self) -> str:
        return TIMED_OUT

    def health(self) -> Health:
        if not self._ready:
            return Health("starting", "Worker is still starting up.")
        return Health("healthy", "Worker has completed startup and is ready to handle requests.")

    # --- reading

    def connectors(self) -> list[str]:
        with self._lock:
            return sorted(self._connectors)

    def connector_info(self, name: str) -> ConnectorInfo:
        connector, config = self._get(name)
        return ConnectorInfo(name, config, [info.id for info in connector.state.task_infos()], connector.definition.facts.type)

    def connector_status(self, name: str) -> ConnectorStatus:
        connector = self._find(name)
        if connector is None:
            raise NotFoundError(f"No status found for connector {name}")
        return connector.status()

    def task_status(self, task: TaskId) -> Status:
        connector = self._find(task.connector)
        found = dict(connector.status().tasks).get(task.task) if connector is not None else None
        if found is None:
            raise NotFoundError(f"No status found for task {task}")
        return found

    def task_infos(self, name: str) -> list[TaskInfo]:
        return self._get(name)[0].state.task_infos()

    def signal_task(self, task: TaskId, signal: TaskSignal) -> bool:
        return self._find(task.connector) is not None and self._executor.signal_task(task, signal)

    # --- offsets

    def offsets(self, name: str) -> list[OffsetEntry]:
        definition = self._get(name)[0].definition
        return self._read_offsets(definition.spec, definition.facts.type, lambda: self._store)

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry] | None) -> str:
        require_offsets(offsets)
        connector, _ = self._get(name)

        def alter() -> str:
            definition = connector.definition
            require_stopped(name, connector.target, len(connector.state.task_infos()))
            return self._change_offsets(definition.spec, definition.facts.type, lambda: self._store, offsets)

        # In the connector's queue: after a stop that was requested before, and before anything that is requested later.
        return self._wait(connector.submit(alter), f"changing offsets of connector {name}")

    # --- topics that connectors have used (KIP-558)

    def topics(self, name: str) -> list[str]:
        self._require_topic_tracking()
        with self._lock:
            connector = self._connectors.get(name)
            return list(self._former_topics.get(name, ())) if connector is None else connector.state.topics()

    def reset_topics(self, name: str) -> None:
        self._require_topic_tracking(reset=True)
        with self._lock:
            self._former_topics.pop(name, None)
        if (connector := self._find(name)) is not None:
            connector.state.reset_topics()

    # --- requests between the workers of a cluster

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]], signature: RequestSignature | None) -> None:
        raise UnsupportedError("Kafka Connect in standalone mode does not support externally setting task configurations.")

    def fence_zombies(self, name: str, signature: RequestSignature | None) -> None:
        raise UnsupportedError(NO_EXACTLY_ONCE)

    def set_cluster_logger(self, namespace: str, level: str) -> None:
        # A cluster of one.
        self.set_worker_logger(namespace, level)

    # --- changes

    def put_connector(
        self,
        name: str,
        config: Mapping[str, str | None],
        *,
        replace: bool,
        target_state: TargetState | None = None,
        origin: Origin = Origin.REST,
    ) -> tuple[ConnectorInfo, bool]:
        # A PATCH may give another name in the configuration; the connector keeps its own (recording config-patch-name).
        props = config if "name" in config else {**config, "name": name}
        # Before the name is looked at: an invalid duplicate is 400 (recording create-duplicate-invalid-config).
        values = self._check.require_valid(props)
        given = _without_nulls(props)
        try:
            definition = self._definition(name, given, _without_nulls(values))
        except Exception as e:
            raise mask_error(e, self._mask) from e
        with self._lock:
            if self._closed:
                raise ConnectError("The worker is shutting down")
            connector = self._connectors.get(name)
            created = connector is None
            if connector is not None and not replace:
                raise AlreadyExistsError(f"Connector {name} already exists")
            self._configs[name] = given
            if connector is None:
                connector = self._connectors[name] = StandaloneConnector(
                    definition, self._dependencies, target_state or TargetState.STARTED
                )
                connector.state.keep_topics(self._former_topics.pop(name, ()))
                future = connector.submit(connector.start)
            else:
                changed = connector
                future = connector.submit(lambda: changed.change(definition, target_state))
            self._history.record(name, given, origin)
        self._wait(future, f"starting connector {name}")
        return self.connector_info(name), created

    def delete_connector(self, name: str, *, origin: Origin = Origin.REST) -> None:
        with self._lock:
            connector = self._connectors.pop(name, None)
            self._configs.pop(name, None)
            self._record_deletion(name, origin)
        self._values.forget(name)
        if connector is None:
            raise NotFoundError(f"Connector {name} not found")
        # Bounded in time. A connector with the same name that is created later starts after this.
        ended = connector.shut_down()
        self._auto_restart.reset(name)
        ended.result(_REQUEST_TIMEOUT_S)
        with self._lock:
            if (topics := connector.state.topics()) and name not in self._connectors:
                self._former_topics[name] = topics
        log.info("Connector %s was deleted", name)

    def set_target_state(self, name: str, state: TargetState) -> None:
        try:
            connector = self._get(name, f"Unknown connector {name}")[0]
        except NotFoundError as e:
            if state is TargetState.STOPPED:
                # 500 in standalone mode, 404 in distributed (recording stop-unknown).
                raise ConnectError(f"No connector `{name}` configured") from e
            raise
        connector.submit(lambda: connector.follow_target(state)).add_done_callback(_log_failure)

    def restart_connector(self, name: str, *, include_tasks: bool, only_failed: bool) -> RestartPlan | None:
        try:
            connector = self._get(name, f"Unknown connector: {name}")[0]
        except NotFoundError as e:
            if not include_tasks and not only_failed:
                # 500 in standalone mode, 404 in distributed (recording restart-unknown).
                raise ConnectError(e.message) from e
            raise
        if not include_tasks and not only_failed:
            restarted = connector.submit(lambda: connector.restart_on_request(with_connector=True, tasks=()))
            self._wait(restarted, f"restarting connector {name}")
            return None
        status = connector.status()
        with_connector, tasks = to_restart(status, include_tasks=include_tasks, only_failed=only_failed)
        if with_connector or tasks:
            restarted = connector.submit(lambda: connector.restart_on_request(with_connector=with_connector, tasks=tasks))
            restarted.add_done_callback(_log_failure)
        return RestartPlan(planned_restart(status, with_connector, tasks))

    def restart_task(self, task: TaskId) -> None:
        try:
            connector = self._get(task.connector)[0]
        except NotFoundError as e:
            # 500 in standalone mode, 404 in distributed (recording restart-task-unknown-connector).
            raise ConnectError(f"Failed to start task {task} since it is not a recognizable type (source or sink)") from e
        self._wait(connector.submit(lambda: connector.restart_task_on_request(task.task)), f"restarting task {task}")

    def close(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        with self._lock:
            self._closed = True
            connectors = list(self._connectors.values())
            self._connectors.clear()
        self._verification_schedule.close()
        close_all({"automatic restarts": self._auto_restart.close}, _CLOSE_S)
        if self._directory is not None:
            self._directory.close(max(0.0, deadline - time.monotonic()))
        close_all({"the timer of config providers": self._reloads.close}, _CLOSE_S)
        wait([connector.shut_down() for connector in connectors], max(0.0, deadline - time.monotonic()))
        executor_s = max(0.0, deadline - time.monotonic())
        close_all({"the executor": lambda: self._executor.close(executor_s)}, executor_s + _KILL_S)
        last = {
            "the client for the cluster's id": self._cluster.close,
            "the client of probes": self._condition.close,
            "the offset file": self._store.close,
            "config providers": self._config.providers.close,
        }
        close_all(last, _CLOSE_S)

    # --- internals

    def _find(self, name: str) -> StandaloneConnector | None:
        with self._lock:
            return self._connectors.get(name)

    def _get(self, name: str, message: str | None = None) -> tuple[StandaloneConnector, dict[str, str]]:
        """Returns a connector and its configuration. Raises NotFoundError."""
        with self._lock:
            connector = self._connectors.get(name)
            if connector is None:
                raise NotFoundError(message or f"Connector {name} not found")
            return connector, dict(self._configs[name])

    def _stored_configs(self) -> Mapping[str, Mapping[str, str | None]]:
        with self._lock:
            return dict(self._configs)

    def _stored_config(self, name: str) -> Mapping[str, str | None]:
        return self._get(name)[1]

    def _reload(self, name: str, only_if_changed: bool) -> Future[None] | None:
        connector = self._find(name)
        return None if connector is None else _logged(connector.submit(lambda: connector.reload(only_if_changed=only_if_changed)))

    def _restart_failed(self, name: str, task: int | None) -> None:
        if (connector := self._find(name)) is not None:
            connector.submit(lambda: connector.restart_failed(task)).add_done_callback(_log_failure)

    def _definition(self, name: str, given: Mapping[str, str], config: Mapping[str, str]) -> ConnectorDefinition:
        facts = self._executor.facts(config["connector.class"], config.get(ENVIRONMENT))
        if facts.type == "source" and self._config.topic_creation_enable:
            topic_creation_rules(config)  # raises ConfigError (recording create-topic-creation-incomplete)
        if facts.type in ("source", "sink"):
            error_settings(config, facts.type)  # raises ConfigError for keys that are not in Apache's ConfigDef
        RestartPolicy.of(config, self._config)  # raises ConfigError
        return ConnectorDefinition(name, given, config, facts)

    def _wait(self, future: Future[T], doing: str) -> T:
        """Returns the result of a future. Raises its error without secrets (promise 9), or ConnectError after the timeout."""
        try:
            return future.result(_REQUEST_TIMEOUT_S)
        except FutureTimeout as e:
            raise ConnectError(f"Request timed out: {doing} is still running because the connector is not responding") from e
        except Exception as e:
            raise mask_error(e, self._mask) from e


class _ExecutorReports:
    """Implements :class:`worker.executor.ExecutorListener`: passes reports to the connectors."""

    def __init__(self, find: Callable[[str], StandaloneConnector | None]) -> None:
        self._find = find

    def on_connector_state(self, start_id: int, name: str, state: State, trace: str | None, version: str | None) -> None:
        if (connector := self._find(name)) is not None:
            connector.on_connector_state(start_id, state, trace)

    def on_task_state(self, start_id: int, task: TaskId, state: State, trace: str | None, version: str | None) -> None:
        if (connector := self._find(task.connector)) is not None:
            connector.on_task_state(start_id, task.task, state, trace, version)

    def on_reconfiguration_requested(self, start_id: int, name: str) -> None:
        if (connector := self._find(name)) is not None:
            connector.submit(lambda: connector.reconfigure_if_current(start_id)).add_done_callback(_log_failure)

    def on_topics(self, start_id: int, task: TaskId, topics: Collection[str]) -> None:
        if (connector := self._find(task.connector)) is not None:
            connector.state.add_topics(start_id, task.task, topics)

    def on_stall(self, start_id: int, instance: str | TaskId, stall: Stall | None) -> None:
        name, number = (instance, None) if isinstance(instance, str) else (instance.connector, instance.task)
        if (connector := self._find(name)) is not None:
            connector.on_stall(start_id, number, stall)


def _running_configs(
    lock: threading.Lock, connectors: Mapping[str, StandaloneConnector], configs: Mapping[str, Mapping[str, str]]
) -> Mapping[str, Mapping[str, str]]:
    with lock:
        running = [name for name, one in connectors.items() if one.target is TargetState.STARTED]
        return {name: configs[name] for name in running}


def _without_nulls(config: Mapping[str, str | None]) -> dict[str, str]:
    """Returns the configuration; raises ConnectError if it has a null. Validation accepts a null for a key that the connector
    knows; Apache's standalone workers then fail like this (recording config-put-null-value)."""
    given = {key: value for key, value in config.items() if value is not None}
    for key in config.keys() - given.keys():
        raise ConnectError(f"Non-string value found in original settings for key {key}: null")
    return given


def _logged(future: Future[None]) -> Future[None]:
    future.add_done_callback(_log_failure)
    return future


def _log_failure(future: Future[Any]) -> None:
    """Logs the failure of a request that nobody waits for; a status shows it where it belongs to one."""
    error = future.exception()
    if error is not None:
        log.warning("A request to a connector failed: %s", error)
