"""Automatic restarts of connectors and tasks that fail on this worker (:mod:`worker.operations.auto_restart`)."""

from __future__ import annotations

from collections.abc import Callable

from worker.distributed.config_sync import ConfigSync
from worker.distributed.local_instances import Instance, LocalInstances, RunningConnector, RunningTask, connector_of
from worker.model import Restarts, State, TargetState
from worker.operations.auto_restart import AutoRestart


class FailedInstances:
    """Implements :class:`worker.distributed.status_writer.StateObserver`: remembers which runs failed, so that statuses can show
    their restarts, whichever worker is asked, and so that only these runs are restarted."""

    def __init__(self, auto_restart: AutoRestart, config: ConfigSync, instances: LocalInstances) -> None:
        self._auto_restart = auto_restart
        self._config = config
        self._instances = instances
        self._failed: dict[Instance, tuple[RunningConnector | RunningTask, str | None]] = {}
        """Runs that have FAILED here, with their traces."""

    def on_state(self, instance: Instance, state: State, trace: str | None) -> Restarts | None:
        name, task = _split(instance)
        self._failed.pop(instance, None)
        if state is State.FAILED and (running := self._instances.find(instance)) is not None:
            self._failed[instance] = running, trace
        if state in (State.PAUSED, State.STOPPED) and not self._is_started(name):
            # The check ignores a late report of a connector that was resumed meanwhile and restarts again.
            self._auto_restart.reset(name)
        return self._auto_restart.on_state(name, task, state, trace, self._config.state.config(name) or {})

    def reset(self, name: str) -> list[tuple[Instance, str | None]]:
        self._auto_restart.reset(name)
        still_failed = []
        for instance, (failed, trace) in list(self._failed.items()):
            if connector_of(instance) != name:
                continue
            if self._instances.find(instance) is not failed:
                del self._failed[instance]
            elif self._is_started(name):
                still_failed.append((instance, trace))
        return still_failed

    def restart(self, instance: Instance, restart: Callable[[Instance], None]) -> None:
        """Calls ``restart`` unless the instance was restarted, stopped, or paused since it failed."""
        failed = self._failed.get(instance)
        if failed is not None and self._instances.find(instance) is failed[0] and self._is_started(connector_of(instance)):
            restart(instance)

    def _is_started(self, name: str) -> bool:
        return self._config.state.target_state(name) is TargetState.STARTED


def _split(instance: Instance) -> tuple[str, int | None]:
    return (instance, None) if isinstance(instance, str) else (instance.connector, instance.task)
