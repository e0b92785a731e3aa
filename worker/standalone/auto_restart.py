"""Self-healing of a standalone worker's connectors: between their states and the healer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from connect.errors import ConfigError
from worker.config.worker_config import WorkerConfig
from worker.model import ConnectorStatus, State, Status
from worker.operations.auto_restart import Healer, RestartPolicy


class UnitHealing:
    """What units tell of their states, and what statuses show. Methods are for any thread."""

    def __init__(self, config: WorkerConfig, healer: Healer) -> None:
        self._config = config
        self._healer = healer

    def told(self, connector: str, task: int | None, state: State, trace: str | None, config: Mapping[str, str]) -> None:
        """An instance is in this state now; ``config`` is the connector's."""
        if state is State.FAILED:
            self._healer.failed(connector, task, self._policy(config), trace)
        elif state is State.RUNNING:
            self._healer.running(connector, task)

    def forget(self, connector: str) -> None:
        """Somebody has taken the connector in hand: what failed before counts no more."""
        self._healer.forget(connector)

    def shown(self, status: ConnectorStatus, config: Mapping[str, str]) -> ConnectorStatus:
        """The status with the restarts of its instances, where the connector is to heal."""
        policy = self._policy(config)
        if not policy.is_on:
            return status

        def with_restarts(task: int | None, one: Status) -> Status:
            return replace(one, restarts=self._healer.shown(status.name, task, policy))

        tasks = [(number, with_restarts(number, task)) for number, task in status.tasks]
        return replace(status, connector=with_restarts(None, status.connector), tasks=tasks)

    def _policy(self, config: Mapping[str, str]) -> RestartPolicy:
        try:
            return RestartPolicy.of(config, self._config)
        except ConfigError:
            return RestartPolicy()  # a value of a config provider that is wrong by now
