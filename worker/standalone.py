"""A worker of one process: configurations and states in memory, source offsets in a file.

Requests come from REST threads. They check and note what is wanted under a lock that is held for moments only, and leave the
work to the threads of the connectors (:mod:`worker.connector_unit`): a connector that hangs stalls itself and nobody else, and
requests for two connectors cannot wait for each other (Apache's standalone worker can, see kafka-connect.md, section 13).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

from connect.connector import Connector, SinkConnector
from connect.errors import AlreadyExistsError, BadRequestError, ConfigError, ConnectError, NotFoundError
from connect.plugins import Kind, Plugins
from worker.cluster import Cluster
from worker.config import WorkerConfig
from worker.config_notices import config_notices
from worker.connector_unit import ConnectorDefinition, ConnectorUnit, UnitTools
from worker.herder import (
    ConnectorInfo,
    ConnectorStatus,
    Health,
    OffsetEntry,
    RestartPlan,
    ServerInfo,
    Status,
    TargetState,
    TaskId,
    TaskInfo,
    TaskProgress,
)
from worker.offsets.file_store import OffsetFile
from worker.plugin_path import extend_python_path
from worker.provided_values import ProvidedValues
from worker.reload_timer import ReloadTimer
from worker.restart import planned_restart, to_restart
from worker.secret_keys import secret_keys_of, worker_secret_keys
from worker.secrets import SecretMask
from worker.task_factory import TaskFactory
from worker.tolerance.settings import error_settings
from worker.topic_creation import topic_creation_rules
from worker.validation import (
    DiscoveredCatalogue,
    create_error_message,
    plugin_config,
    plugin_list,
    show_references,
    validate,
)
from worker.version import version

T = TypeVar("T")

log = logging.getLogger(__name__)

_REQUEST_TIMEOUT_S = 80.0
"""Below the 90 seconds after which REST gives up."""


class StandaloneHerder:
    """Implements :class:`worker.herder.Herder` for one process."""

    def __init__(
        self,
        config: WorkerConfig,
        *,
        worker_id: str | None = None,
        plugins: Plugins | None = None,
    ) -> None:
        """Opens the offset file. Raises ConfigError when another worker has it, or it is damaged."""
        self._config = config
        self._worker_id = worker_id or config.worker_id
        self._mask = config.providers.mask
        self._notices = [*config_notices(config.originals), *extend_python_path(config.plugin_path)]
        self._plugins = plugins or Plugins.discover()
        self._catalogue = DiscoveredCatalogue(self._plugins)
        self._check_converters()
        self._mask.add(config.originals, worker_secret_keys(config, self._plugins))
        self._store = OffsetFile(config.offset_storage_file_filename)
        self._reloads = ReloadTimer(self._reload)
        self._values = ProvidedValues(config.providers, self._reloads)
        self._tools = UnitTools(
            self._worker_id,
            TaskFactory(config, self._plugins, self._store, self._mask),
            self._store,
            self._values,
            self._mask,
            config.task_shutdown_graceful_timeout_ms / 1000,
        )
        self._cluster = Cluster(config)
        self._lock = threading.Lock()
        self._units: dict[str, ConnectorUnit] = {}
        self._configs: dict[str, dict[str, str]] = {}
        self._ready = False
        self._closed = False

    def _check_converters(self) -> None:
        config = self._config
        for key, kind, name in (
            ("key.converter", Kind.CONVERTER, config.key_converter),
            ("value.converter", Kind.CONVERTER, config.value_converter),
            ("header.converter", Kind.HEADER_CONVERTER, config.header_converter),
        ):
            try:
                self._plugins.load(self._plugins.resolve(kind, name))
            except ConfigError as e:
                raise ConfigError.invalid(key, name, e.message) from e

    def start(self) -> None:
        """Begins to look for the broker, in the background. Warns about settings that do not do what they seem to."""
        for notice in self._notices:
            log.warning("%s", notice)
        self._reloads.start()
        self._cluster.start()

    def started(self) -> None:
        """What was to be started with the worker has been started: health says so from now on."""
        self._ready = True

    @property
    def worker_id(self) -> str:
        return self._worker_id

    def server_info(self) -> ServerInfo:
        return ServerInfo(version(), "unknown", self._cluster.cluster_id)

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
        return ConnectorInfo(name, config, [info.id for info in unit.task_infos()], unit.definition.type)

    def connector_status(self, name: str) -> ConnectorStatus:
        with self._lock:
            unit = self._units.get(name)
        if unit is None:
            raise NotFoundError(f"No status found for connector {name}")
        return unit.status()

    def task_status(self, task: TaskId) -> Status:
        with self._lock:
            unit = self._units.get(task.connector)
        found = dict(unit.status().tasks).get(task.task) if unit is not None else None
        if found is None:
            raise NotFoundError(f"No status found for task {task}")
        return found

    def task_infos(self, name: str) -> list[TaskInfo]:
        return self._unit(name)[0].task_infos()

    def progress(self, task: TaskId) -> TaskProgress | None:
        with self._lock:
            unit = self._units.get(task.connector)
        return None if unit is None else unit.progress(task.task)

    def offsets(self, name: str) -> list[OffsetEntry]:
        unit, _ = self._unit(name)
        if issubclass(unit.definition.connector_class, SinkConnector):
            return self._cluster.sink_offsets(name, unit.definition.config)
        return self._store.entries(name)

    def plugins(self, *, connectors_only: bool) -> list[dict[str, str]]:
        return plugin_list(self._catalogue, connectors_only=connectors_only)

    def plugin_config(self, plugin: str, version: str | None = None) -> list[dict[str, Any]]:
        return plugin_config(plugin, self._catalogue, version)

    def validate(self, plugin: str, config: Mapping[str, Any]) -> dict[str, Any]:
        # The class counts that the configuration names, not the one in the path (recording validate-empty).
        return self._validated(config)[0]

    # --- changes

    def put_connector(
        self,
        name: str,
        config: Mapping[str, str | None],
        *,
        replace: bool,
        target_state: TargetState | None = None,
    ) -> tuple[ConnectorInfo, bool]:
        # A PATCH may give another name in the configuration; the connector keeps its own (recording config-patch-name).
        props = {"name": name, **config}
        # Before the name is looked at: an invalid duplicate is 400 (recording create-duplicate-invalid-config).
        answer, values = self._validated(props)
        if message := create_error_message(answer):
            raise BadRequestError(self._mask.mask(message))
        given = _without_nulls(props)
        try:
            definition = self._definition(name, given, _without_nulls(values))
        except Exception as e:
            raise _masked(e, self._mask) from e
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

    def delete_connector(self, name: str) -> None:
        with self._lock:
            unit = self._units.pop(name, None)
            self._configs.pop(name, None)
        self._values.forget(name)
        if unit is None:
            raise NotFoundError(f"Connector {name} not found")
        self._shut_down([unit], time.monotonic() + self._tools.graceful_timeout_s + 1.0)
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
            self._outcome(unit.submit(lambda: unit.restart(with_connector=True, tasks=())), f"restarting connector {name}")
            return None
        status = unit.status()
        with_connector, tasks = to_restart(status, include_tasks=include_tasks, only_failed=only_failed)
        if with_connector or tasks:
            unit.submit(lambda: unit.restart(with_connector=with_connector, tasks=tasks)).add_done_callback(_logged)
        return RestartPlan(planned_restart(status, with_connector, tasks))

    def restart_task(self, task: TaskId) -> None:
        try:
            unit = self._unit(task.connector)[0]
        except NotFoundError as e:
            # 500 in standalone mode, 404 in distributed (recording restart-task-unknown-connector).
            raise ConnectError(f"Failed to start task {task} since it is not a recognizable type (source or sink)") from e
        self._outcome(unit.submit(lambda: unit.restart_task(task.task)), f"restarting task {task}")

    def close(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        with self._lock:
            self._closed = True
            units = list(self._units.values())
            self._units = {}
        self._reloads.close()
        self._shut_down(units, deadline)
        self._cluster.close()
        self._store.close()
        self._config.providers.close()

    # --- parts of the above

    def _unit(self, name: str, message: str | None = None) -> tuple[ConnectorUnit, dict[str, str]]:
        with self._lock:
            unit = self._units.get(name)
            if unit is None:
                raise NotFoundError(message or f"Connector {name} not found")
            return unit, dict(self._configs[name])

    def _validated(self, config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str | None]]:
        """The answer of validation, and the configuration with the values of config providers. Secrets that it holds are known to
        the mask from then on, and neither the answer nor an error tells them (promise 9)."""
        found = self._values.for_check(config)
        values = found.values
        self._mask.add(values)
        # The answer is about this configuration alone: a short secret of another connector must not blot out its words.
        own = SecretMask()
        own.add_provided(found.secrets)
        own.add(values)
        try:
            answer = validate(config, self._config, self._catalogue, resolve=lambda _: values)
        except Exception as e:
            raise _masked(e, own) from e
        for mask in (own, self._mask):
            mask.add(values, secret_keys_of(answer))
        return show_references(answer, config, values, own.mask), values

    def _reload(self, name: str, only_if_changed: bool) -> None:
        with self._lock:
            unit = self._units.get(name)
        if unit is not None:
            unit.submit(lambda: unit.reload(only_if_changed=only_if_changed)).add_done_callback(_logged)

    def _definition(self, name: str, given: Mapping[str, str], config: Mapping[str, str]) -> ConnectorDefinition:
        desc = self._plugins.resolve(Kind.CONNECTOR, config["connector.class"])
        connector_class: type[Connector] = self._plugins.load(desc)
        if desc.type == "source" and self._config.topic_creation_enable:
            topic_creation_rules(config)  # raises what is wrong with them, as create-topic-creation-incomplete has it
        if desc.type in ("source", "sink"):
            error_settings(config, desc.type)  # raises what is wrong with those that Apache's table does not have
        return ConnectorDefinition(
            name,
            given,
            config,
            desc.class_name,
            connector_class,
            desc.type,
            None if desc.version == "unknown" else desc.version,
        )

    def _outcome(self, future: Future[T], doing: str) -> T:
        try:
            return future.result(_REQUEST_TIMEOUT_S)
        except FutureTimeout as e:
            raise ConnectError(f"Request timed out: {doing} still goes on; the connector does not answer") from e
        except Exception as e:
            raise _masked(e, self._mask) from e

    def _shut_down(self, units: list[ConnectorUnit], deadline: float) -> None:
        """Stops units side by side; one that hangs is abandoned when the time is over."""
        for unit in units:
            unit.shut_down().add_done_callback(_logged)
        for unit in units:
            if not unit.join(deadline):
                log.error("Connector %s does not stop and is abandoned", unit.definition.name)
                unit.abandon()


def _masked(error: Exception, mask: SecretMask) -> Exception:
    """The error as REST may show it: itself, or where its message holds a secret one of its kind without (promise 9)."""
    told = error.message if isinstance(error, ConnectError) else str(error) or type(error).__name__
    message = mask.mask(told)
    if message == told:
        return error
    kind = next((kind for kind in (BadRequestError, ConfigError, NotFoundError) if isinstance(error, kind)), ConnectError)
    return kind(message)


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
