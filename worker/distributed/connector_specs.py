"""Configurations with the values of config providers, and restarts when those values change."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from connect.errors import ConnectError
from worker.config.resolved_config import ResolvedConfigs
from worker.distributed.assignment_reconciler import AssignmentReconciler
from worker.distributed.config_sync import ConfigSync
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.local_instances import LocalInstances
from worker.executor import ConnectorSpec
from worker.model import TargetState

log = logging.getLogger(__name__)


class ConnectorSpecs:
    """Resolves configurations on a thread pool, because config providers may take a while. Any thread."""

    def __init__(self, values: ResolvedConfigs, pool: ThreadPoolExecutor) -> None:
        self._values = values
        self._pool = pool

    def resolve(self, name: str, config: Mapping[str, str | None]) -> Future[ConnectorSpec]:
        """Resolves a configuration for a start."""
        given = _without_nulls(config)
        return self._pool.submit(lambda: ConnectorSpec(name, given, self._values.resolve_for_start(name, given)))

    def resolve_for_request(self, name: str, config: Mapping[str, str | None]) -> Future[ConnectorSpec]:
        """Resolves a configuration of a connector that is not started with it."""
        given = _without_nulls(config)
        return self._pool.submit(
            lambda: ConnectorSpec(name, given, _without_nulls(self._values.resolve_for_validation(given).values))
        )


class ProviderReload:
    """Restarts connectors whose values of config providers have expired (``config.action.reload``)."""

    def __init__(
        self,
        loop: HerderLoop,
        config: ConfigSync,
        values: ResolvedConfigs,
        pool: ThreadPoolExecutor,
        instances: LocalInstances,
        reconciler: AssignmentReconciler,
    ) -> None:
        self._loop = loop
        self._config = config
        self._values = values
        self._pool = pool
        self._instances = instances
        self._reconciler = reconciler

    def reload(self, name: str, only_if_changed: bool) -> Future[None]:
        """Restarts the instances of a connector that run here. Any thread. Done when they have been told to stop."""
        return self._pool.submit(self._look_up, name, only_if_changed)

    def _look_up(self, name: str, only_if_changed: bool) -> None:
        config = self._config.state.config(name)
        if config is None:
            return
        try:
            changed = self._values.changed(name, _without_nulls(config))
        except ConnectError as e:
            log.warning("Connector %s keeps its current config provider values: %s", name, e.message)
            self._values.reschedule(name)
            return
        if changed or not only_if_changed:
            self._loop.post(lambda: self._restart(name))

    def _restart(self, name: str) -> None:
        tasks = [task for task in self._instances.tasks if task.connector == name]
        is_started = self._config.state.target_state(name) is TargetState.STARTED
        if is_started and (name in self._instances.connectors or tasks):
            log.info("Restarting connector %s and its tasks on this worker with new config provider values", name)
            self._reconciler.stop_tasks(tasks)
            self._reconciler.stop_connector(name)


def _without_nulls(config: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in config.items() if value is not None}
