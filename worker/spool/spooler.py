"""Runs the connector of a spool until it is asked to stop, fails for good, or has loaded what exists."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Collection
from concurrent.futures import wait

from connect.plugins import Plugins
from connect.spool.writer import SpoolWriter
from worker.config.extension_keys import RESTART_KEYS
from worker.config.plugin_path import extend_python_path
from worker.config.reload_timer import ReloadTimer
from worker.config.resolved_config import ResolvedConfigs
from worker.config.secrets import SecretMask
from worker.executors.local import LocalExecutor
from worker.model import Stall, State, Status, TargetState, TaskId
from worker.operations.auto_restart import AutoRestart
from worker.operations.shutdown import close_all
from worker.spool.config import SpoolerConfig
from worker.spool.offset_store import SpoolOffsetStore
from worker.spool.output import SpoolMode, SpoolOutput
from worker.spool.task_factory import SpoolTaskFactory
from worker.standalone.connector import ConnectorDefinition, ConnectorDependencies, StandaloneConnector
from worker.standalone.services import StandaloneServices
from worker.validation.config_validator import ConfigValidator

log = logging.getLogger(__name__)

_CLOSE_S = 2.0
_WORKER_ID = "spool"


class Spooler:
    """One connector and what it needs. Its creator calls :meth:`start` and, in any case, :meth:`close`."""

    def __init__(
        self,
        config: SpoolerConfig,
        plugins: Plugins,
        writer: SpoolWriter,
        mask: SecretMask,
        mode: SpoolMode,
        *,
        keeps_columns: bool = False,
    ) -> None:
        self.output = SpoolOutput(writer, config.spool, mode, keeps_columns=keeps_columns)
        self._config = config
        self._mask = mask
        worker = config.worker
        extend_python_path(worker.plugin_path)
        self._reloads = ReloadTimer(self._reload)
        self._values = ResolvedConfigs(worker.providers, self._reloads)
        self._auto_restart = AutoRestart(worker, self._restart_failed)
        services = StandaloneServices(SpoolOffsetStore(writer))
        factory = SpoolTaskFactory(worker, plugins, services, mask, self.output)
        self._executor = LocalExecutor(worker, plugins, services, self, mask, factory)
        self._connector: StandaloneConnector | None = None

    def start(self) -> None:
        """Starts connector and tasks. Raises ConnectError if the configuration is invalid or the connector does not start."""
        given = dict(self._config.connector)
        self._executor.wait_until_ready()
        self._reloads.start()
        self._auto_restart.start()
        check = ConfigValidator(self._executor, self._values, self._mask)
        values = {key: value for key, value in check.require_valid(given).items() if value is not None}
        facts = self._executor.facts(values["connector.class"])
        runs = itertools.count(1)
        dependencies = ConnectorDependencies(
            _WORKER_ID, self._executor, self._values, self._mask, lambda: next(runs), self._auto_restart
        )
        definition = ConnectorDefinition(self._config.name, given, values, facts)
        connector = self._connector = StandaloneConnector(definition, dependencies, TargetState.STARTED)
        try:
            connector.submit(connector.start).result()
        except Exception:
            if self.failure() is not None:
                raise
            log.warning("The connector did not start and will be restarted", exc_info=True)

    def confirm(self) -> None:
        """Tells the source what the reader of the spool has committed, and removes it. Called regularly by one thread."""
        if (connector := self._connector) is not None:
            self.output.confirm(len(connector.state.task_infos()))

    def failure(self) -> str | None:
        """Returns why the connector has failed for good; None while it runs or will be restarted."""
        connector = self._connector
        assert connector is not None
        status = connector.status()
        for number, one in ((None, status.connector), *status.tasks):
            if one.state is State.FAILED and self._auto_restart.has_given_up(status.name, number):
                label = f"Connector {status.name}" if number is None else f"Task {TaskId(status.name, number)}"
                return f"{label} failed: {_cause(one)}{_hint(one)}"
        return None

    @property
    def has_loaded(self) -> bool:
        """Whether a load is complete: the connector runs, and each of its tasks has read what existed. A connector without tasks
        does not know yet what exists."""
        if self.output.mode is SpoolMode.STREAM or (connector := self._connector) is None:
            return False
        start_ids = connector.state.start_ids()
        return connector.state.state is State.RUNNING and bool(start_ids) and self.output.have_loaded(start_ids)

    def close(self) -> None:
        """Stops connector and tasks, which write their last segments. Bounded in time."""
        graceful_s = self._config.worker.task_shutdown_graceful_timeout_ms / 1000
        deadline = time.monotonic() + graceful_s + 1.0
        close_all({"automatic restarts": self._auto_restart.close, "config reloads": self._reloads.close}, _CLOSE_S)
        if self._connector is not None:
            wait([self._connector.shut_down()], max(0.0, deadline - time.monotonic()))
        close_all({"the executor": lambda: self._executor.close(max(0.0, deadline - time.monotonic()))}, graceful_s + 1.0)
        close_all({"config providers": self._config.worker.providers.close}, _CLOSE_S)

    def _reload(self, name: str, only_if_changed: bool) -> None:
        if (connector := self._connector) is not None:
            connector.submit(lambda: connector.reload(only_if_changed=only_if_changed))

    def _restart_failed(self, name: str, task: int | None) -> None:
        if (connector := self._connector) is not None:
            connector.submit(lambda: connector.restart_failed(task))

    # --- reports of the executor (worker.executor.ExecutorListener)

    def on_connector_state(self, start_id: int, name: str, state: State, trace: str | None, version: str | None) -> None:
        if (connector := self._connector) is not None:
            connector.on_connector_state(start_id, state, trace)

    def on_task_state(self, start_id: int, task: TaskId, state: State, trace: str | None, version: str | None) -> None:
        if (connector := self._connector) is not None:
            connector.on_task_state(start_id, task.task, state, trace, version)

    def on_reconfiguration_requested(self, start_id: int, name: str) -> None:
        if (connector := self._connector) is not None:
            connector.submit(lambda: connector.reconfigure_if_current(start_id))

    def on_topics(self, start_id: int, task: TaskId, topics: Collection[str]) -> None:
        if (connector := self._connector) is not None:
            connector.state.add_topics(start_id, task.task, topics)

    def on_stall(self, start_id: int, instance: str | TaskId, stall: Stall | None) -> None:
        """Does nothing: the log has it, and nobody reads statuses."""


def _cause(status: Status) -> str:
    first = (status.trace or "").strip().partition("\n")[0]
    return first or "no reason is known"


def _hint(status: Status) -> str:
    if status.restarts is not None:
        return ""
    return f" ({RESTART_KEYS[0].name} restarts it automatically)"
