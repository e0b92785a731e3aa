"""A worker alone: configurations and states in memory, source offsets in a file.

Requests come from REST threads. They check and note what is wanted under a lock that is held for moments only, and leave the
work to the lanes of the connectors (:mod:`worker.standalone.connector`), whose code runs in an executor: a connector that hangs
stalls itself and nobody else, and requests for two connectors cannot wait for each other (Apache's standalone worker can, see
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
from typing import Any, TypeVar

from connect.errors import (
    AlreadyExistsError,
    ConnectError,
    ForbiddenError,
    NotFoundError,
    UnsupportedError,
)
from connect.plugins import Plugins
from worker.config.isolation import ENVIRONMENT
from worker.config.plugin_path import extend_python_path
from worker.config.reload_timer import ReloadTimer
from worker.config.resolved_config import ResolvedConfigs
from worker.config.startup_warnings import find_startup_warnings
from worker.config.worker_config import WorkerConfig
from worker.errors.config import error_settings
from worker.executors.factory import make_executor
from worker.kafka.cluster import Cluster
from worker.kafka.topic_creation import topic_creation_rules
from worker.model import (
    ConfigVersion,
    ConnectorFileState,
    ConnectorInfo,
    ConnectorStatus,
    Health,
    LoggerLevel,
    OffsetEntry,
    Origin,
    RequestSignature,
    RestartPlan,
    ServerInfo,
    State,
    Status,
    TargetState,
    TaskId,
    TaskInfo,
    TaskProgress,
)
from worker.observability.herder_activity import TIMED_OUT
from worker.observability.loggers import Loggers
from worker.operations.auto_restart import Healer, RestartPolicy
from worker.operations.connectors_dir.sync import ConnectorDirectory
from worker.operations.connectors_dir.target import FilesTarget
from worker.operations.history.memory import MemoryHistory
from worker.operations.history.versions import config_to_restore, unknown
from worker.operations.offsets.alter import alter_sink_offsets, alter_source_offsets
from worker.operations.offsets.changes import require_offsets, require_stopped, shown_entries
from worker.operations.offsets.sink_groups import SinkGroups
from worker.operations.restart_plan import planned_restart, to_restart
from worker.operations.shutdown import close_all
from worker.standalone.auto_restart import UnitHealing
from worker.standalone.connector import ConnectorDefinition, ConnectorUnit, UnitTools
from worker.standalone.services import NO_EXACTLY_ONCE, StandaloneServices
from worker.storage.file_offset_store import OffsetFile
from worker.validation.config_validator import ConfigValidator, mask_error
from worker.version import server_info

T = TypeVar("T")

log = logging.getLogger(__name__)

_REQUEST_TIMEOUT_S = 80.0
"""Below the 90 seconds after which REST gives up."""
_MOMENTS_S = 2.0
_KILL_S = 5.0
"""What it takes to kill processes that do not end."""


class StandaloneHerder:
    """Implements :class:`worker.herder.Herder` for one process."""

    def __init__(
        self,
        config: WorkerConfig,
        *,
        worker_id: str | None = None,
        plugins: Plugins | None = None,
    ) -> None:
        """Opens the offset file, and has executor processes started. Raises ConfigError when another worker has the file, or it
        is damaged. Who made it closes it, also when :meth:`start` fails."""
        self._config = config
        self._worker_id = worker_id or config.worker_id
        self._mask = config.providers.mask
        self._notices = [*find_startup_warnings(config.originals), *extend_python_path(config.plugin_path)]
        self._store = OffsetFile(config.offset_storage_file_filename)
        self._reloads = ReloadTimer(self._reload)
        self._values = ResolvedConfigs(config.providers, self._reloads)
        services, events = StandaloneServices(self._store), _ExecutorEvents(self._unit_or_none)
        self._executor = make_executor(config, plugins, services, events, self._mask)
        runs = itertools.count(1)
        self._healer = Healer(self._heal)
        healing = UnitHealing(config, self._healer)
        self._tools = UnitTools(self._worker_id, self._executor, self._values, self._mask, lambda: next(runs), healing)
        self._check = ConfigValidator(self._executor, self._values, self._mask)
        self._cluster = Cluster(config.bootstrap_servers, config.originals)
        self._sink_groups = SinkGroups(config)
        self._history = MemoryHistory(config.config_history_size)
        self._directory: ConnectorDirectory | None = None
        if config.connectors_dir is not None:
            target = FilesTarget(self._put_from, self._delete_from, self._given_configs, self._history)
            self._directory = ConnectorDirectory(config.connectors_dir, target)
        self.loggers = Loggers()
        self.loggers.on_change(self._executor.set_log_level)
        self._lock = threading.Lock()
        self._units: dict[str, ConnectorUnit] = {}
        self._configs: dict[str, dict[str, str]] = {}
        self._ready = False
        self._closed = False
        # Already here: while the rest of the worker is put together, processes start.
        self._executor.start()

    def start(self) -> None:
        """Begins to look for the broker, in the background. Warns about settings that do not do what they seem to. Raises
        ConfigError when the worker's converters cannot be loaded."""
        for notice in self._notices:
            log.warning("%s", notice)
        self._executor.wait_until_ready()
        self._reloads.start()
        self._healer.start()
        self._cluster.start()

    def started(self) -> None:
        """What was to be started with the worker has been started: health says so from now on."""
        self._ready = True
        if self._directory is not None:
            self._directory.start()

    @property
    def worker_id(self) -> str:
        return self._worker_id

    def timeout_message(self) -> str:
        return TIMED_OUT

    def server_info(self) -> ServerInfo:
        return server_info(self._cluster.cluster_id)

    def health(self) -> Health:
        if not self._ready:
            return Health("starting", "Worker is still starting up.")
        return Health("healthy", "Worker has completed startup and is ready to handle requests.")

    # --- what there is

    def connectors(self) -> list[str]:
        with self._lock:
            return sorted(self._units)

    def connector_info(self, name: str) -> ConnectorInfo:
        unit, config = self._unit(name)
        return ConnectorInfo(name, config, [info.id for info in unit.task_infos()], unit.definition.facts.type)

    def connector_status(self, name: str) -> ConnectorStatus:
        unit = self._unit_or_none(name)
        if unit is None:
            raise NotFoundError(f"No status found for connector {name}")
        return unit.status()

    def task_status(self, task: TaskId) -> Status:
        unit = self._unit_or_none(task.connector)
        found = dict(unit.status().tasks).get(task.task) if unit is not None else None
        if found is None:
            raise NotFoundError(f"No status found for task {task}")
        return found

    def task_infos(self, name: str) -> list[TaskInfo]:
        return self._unit(name)[0].task_infos()

    def progress(self, task: TaskId) -> TaskProgress | None:
        unit = self._unit_or_none(task.connector)
        return None if unit is None else unit.progress(task.task)

    def offsets(self, name: str) -> list[OffsetEntry]:
        unit, _ = self._unit(name)
        if unit.definition.facts.type == "sink":
            return self._sink_groups.offsets(name, unit.definition.config)
        return shown_entries(name, self._store.entries(name))

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry] | None) -> str:
        require_offsets(offsets)
        unit, _ = self._unit(name)
        # In the unit's lane: after a stop that was asked for before, and before whatever is asked for later.
        return self._outcome(unit.submit(lambda: self._altered_offsets(unit, offsets)), f"changing offsets of connector {name}")

    def _altered_offsets(self, unit: ConnectorUnit, offsets: Sequence[OffsetEntry] | None) -> str:
        spec = unit.definition.spec
        require_stopped(spec.name, unit.target, len(unit.task_infos()))
        if unit.definition.facts.type == "sink":
            return alter_sink_offsets(self._executor, self._sink_groups, spec, offsets)
        return alter_source_offsets(self._executor, self._store, spec, offsets)

    def plugins(self, *, connectors_only: bool) -> list[dict[str, str]]:
        return self._executor.plugins(connectors_only=connectors_only)

    def plugin_config(self, plugin: str, version: str | None = None) -> list[dict[str, Any]]:
        return self._executor.plugin_config(plugin, version)

    def validate(self, plugin: str, config: Mapping[str, Any]) -> dict[str, Any]:
        # The class counts that the configuration names, not the one in the path (recording validate-empty).
        return self._check.validate(config)[0]

    # --- loggers

    def all_loggers(self) -> dict[str, LoggerLevel]:
        return self.loggers.all_loggers()

    def logger(self, name: str) -> LoggerLevel | None:
        return self.loggers.logger(name)

    def set_worker_logger(self, namespace: str, level: str) -> list[str]:
        return self.loggers.set_worker_logger(namespace, level)

    def set_cluster_logger(self, namespace: str, level: str) -> None:
        # A cluster of one.
        self.set_worker_logger(namespace, level)

    # --- topics that connectors have used (KIP-558)

    def topics(self, name: str) -> list[str]:
        self._require_topic_tracking()
        unit = self._unit_or_none(name)
        return [] if unit is None else unit.topics()

    def reset_topics(self, name: str) -> None:
        self._require_topic_tracking()
        if not self._config.topic_tracking_allow_reset:
            raise ForbiddenError("Topic tracking reset is disabled.")
        if (unit := self._unit_or_none(name)) is not None:
            unit.reset_topics()

    def _require_topic_tracking(self) -> None:
        if not self._config.topic_tracking_enable:
            raise ForbiddenError("Topic tracking is disabled.")

    # --- what only workers of a cluster ask each other

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]], signature: RequestSignature | None) -> None:
        raise UnsupportedError("Kafka Connect in standalone mode does not support externally setting task configurations.")

    def fence_zombies(self, name: str, signature: RequestSignature | None) -> None:
        raise UnsupportedError(NO_EXACTLY_ONCE)

    # --- earlier configurations, and connectors of files

    def history(self, name: str) -> list[ConfigVersion]:
        versions = self._history.versions(name)
        if not versions:
            raise unknown(name)
        return versions

    def rollback(self, name: str, version: int) -> tuple[ConnectorInfo, bool]:
        config = config_to_restore(name, self._history.version(name, version))
        return self.put_connector(name, config, replace=True, origin=Origin.ROLLBACK)

    def connector_files(self) -> list[ConnectorFileState]:
        return [] if self._directory is None else self._directory.files()

    def _put_from(self, origin: Origin, name: str, config: Mapping[str, str | None], state: TargetState | None) -> None:
        self.put_connector(name, config, replace=True, target_state=state, origin=origin)

    def _delete_from(self, origin: Origin, name: str) -> None:
        self.delete_connector(name, origin=origin)

    def _given_configs(self) -> Mapping[str, Mapping[str, str | None]]:
        with self._lock:
            return dict(self._configs)

    def _heal(self, name: str, task: int | None) -> None:
        if (unit := self._unit_or_none(name)) is not None:
            unit.submit(lambda: unit.heal(task)).add_done_callback(_logged)

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
            unit = self._units.get(name)
            created = unit is None
            if unit is not None and not replace:
                raise AlreadyExistsError(f"Connector {name} already exists")
            self._configs[name] = given
            if unit is None:
                unit = self._units[name] = ConnectorUnit(definition, self._tools, target_state or TargetState.STARTED)
                future = unit.submit(unit.start)
            else:
                changed = unit
                future = unit.submit(lambda: changed.change(definition, target_state))
            self._history.record(name, given, origin)
        self._outcome(future, f"starting connector {name}")
        return self.connector_info(name), created

    def patch_connector(self, name: str, changes: Mapping[str, str | None]) -> ConnectorInfo:
        config: dict[str, str | None] = dict(self._unit(name)[1])
        for key, value in changes.items():
            if value is None:
                config.pop(key, None)
            else:
                config[key] = value
        return self.put_connector(name, config, replace=True)[0]

    def delete_connector(self, name: str, *, origin: Origin = Origin.REST) -> None:
        with self._lock:
            unit = self._units.pop(name, None)
            self._configs.pop(name, None)
            self._history.record(name, None, origin)
        self._values.forget(name)
        if unit is None:
            raise NotFoundError(f"Connector {name} not found")
        # All of its parts are given up in time. A connector of the same name made after this begins after that.
        ended = unit.shut_down()
        self._healer.forget(name)
        ended.result(_REQUEST_TIMEOUT_S)
        log.info("Connector %s was deleted", name)

    def set_target_state(self, name: str, state: TargetState) -> None:
        try:
            unit = self._unit(name, f"Unknown connector {name}")[0]
        except NotFoundError as e:
            if state is TargetState.STOPPED:
                # 500 in standalone mode, 404 in distributed (recording stop-unknown).
                raise ConnectError(f"No connector `{name}` configured") from e
            raise
        unit.submit(lambda: unit.follow_target(state)).add_done_callback(_logged)

    def restart_connector(self, name: str, *, include_tasks: bool, only_failed: bool) -> RestartPlan | None:
        try:
            unit = self._unit(name, f"Unknown connector: {name}")[0]
        except NotFoundError as e:
            if not include_tasks and not only_failed:
                # 500 in standalone mode, 404 in distributed (recording restart-unknown).
                raise ConnectError(e.message) from e
            raise
        if not include_tasks and not only_failed:
            restarted = unit.submit(lambda: unit.restart_on_request(with_connector=True, tasks=()))
            self._outcome(restarted, f"restarting connector {name}")
            return None
        status = unit.status()
        with_connector, tasks = to_restart(status, include_tasks=include_tasks, only_failed=only_failed)
        if with_connector or tasks:
            unit.submit(lambda: unit.restart_on_request(with_connector=with_connector, tasks=tasks)).add_done_callback(_logged)
        return RestartPlan(planned_restart(status, with_connector, tasks))

    def restart_task(self, task: TaskId) -> None:
        try:
            unit = self._unit(task.connector)[0]
        except NotFoundError as e:
            # 500 in standalone mode, 404 in distributed (recording restart-task-unknown-connector).
            raise ConnectError(f"Failed to start task {task} since it is not a recognizable type (source or sink)") from e
        self._outcome(unit.submit(lambda: unit.restart_task_on_request(task.task)), f"restarting task {task}")

    def close(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        with self._lock:
            self._closed = True
            units = list(self._units.values())
            self._units = {}
        close_all({"self-healing": self._healer.close}, _MOMENTS_S)
        if self._directory is not None:
            self._directory.close(max(0.0, deadline - time.monotonic()))
        close_all({"the timer of config providers": self._reloads.close}, _MOMENTS_S)
        wait([unit.shut_down() for unit in units], max(0.0, deadline - time.monotonic()))
        executor_s = max(0.0, deadline - time.monotonic())
        close_all({"the executor": lambda: self._executor.close(executor_s)}, executor_s + _KILL_S)
        last = {
            "the client for the cluster's id": self._cluster.close,
            "the offset file": self._store.close,
            "config providers": self._config.providers.close,
        }
        close_all(last, _MOMENTS_S)

    # --- parts of the above

    def _unit_or_none(self, name: str) -> ConnectorUnit | None:
        with self._lock:
            return self._units.get(name)

    def _unit(self, name: str, message: str | None = None) -> tuple[ConnectorUnit, dict[str, str]]:
        with self._lock:
            unit = self._units.get(name)
            if unit is None:
                raise NotFoundError(message or f"Connector {name} not found")
            return unit, dict(self._configs[name])

    def _reload(self, name: str, only_if_changed: bool) -> None:
        unit = self._unit_or_none(name)
        if unit is not None:
            unit.submit(lambda: unit.reload(only_if_changed=only_if_changed)).add_done_callback(_logged)

    def _definition(self, name: str, given: Mapping[str, str], config: Mapping[str, str]) -> ConnectorDefinition:
        facts = self._executor.facts(config["connector.class"], config.get(ENVIRONMENT))
        if facts.type == "source" and self._config.topic_creation_enable:
            topic_creation_rules(config)  # raises what is wrong with them, as create-topic-creation-incomplete has it
        if facts.type in ("source", "sink"):
            error_settings(config, facts.type)  # raises what is wrong with those that Apache's table does not have
        RestartPolicy.of(config, self._config)  # and so does this
        return ConnectorDefinition(name, given, config, facts)

    def _outcome(self, future: Future[T], doing: str) -> T:
        try:
            return future.result(_REQUEST_TIMEOUT_S)
        except FutureTimeout as e:
            raise ConnectError(f"Request timed out: {doing} still goes on; the connector does not answer") from e
        except Exception as e:
            raise mask_error(e, self._mask) from e


class _ExecutorEvents:
    """What connectors and tasks tell, passed on to their units (:class:`worker.executor.ExecutorListener`)."""

    def __init__(self, unit_of: Callable[[str], ConnectorUnit | None]) -> None:
        self._unit_of = unit_of

    def on_connector_state(self, run: int, name: str, state: State, trace: str | None, version: str | None) -> None:
        if (unit := self._unit_of(name)) is not None:
            unit.on_connector_state(run, state, trace)

    def on_task_state(self, run: int, task: TaskId, state: State, trace: str | None, version: str | None) -> None:
        if (unit := self._unit_of(task.connector)) is not None:
            unit.on_task_state(run, task.task, state, trace, version)

    def on_reconfiguration_requested(self, run: int, name: str) -> None:
        if (unit := self._unit_of(name)) is not None:
            unit.submit(lambda: unit.reconfigure_if(run)).add_done_callback(_logged)

    def on_topics(self, run: int, task: TaskId, topics: Collection[str]) -> None:
        if (unit := self._unit_of(task.connector)) is not None:
            unit.on_topics(run, task.task, topics)


def _without_nulls(config: Mapping[str, str | None]) -> dict[str, str]:
    """The configuration, which must have no null. Validation lets one pass for a key that the connector knows; then standalone
    workers of Apache's fail as here (recording config-put-null-value)."""
    given = {key: value for key, value in config.items() if value is not None}
    for key in config.keys() - given.keys():
        raise ConnectError(f"Non-string value found in original settings for key {key}: null")
    return given


def _logged(future: Future[Any]) -> None:
    """A failure that nobody waits for has been put into a status where it belongs to one; the log tells of it anyway."""
    error = future.exception()
    if error is not None:
        log.warning("A request to a connector failed: %s", error)
