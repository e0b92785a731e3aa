"""Changes in the config topic: received on the store's thread, followed on the herder's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from worker.config.resolved_config import ResolvedConfigs
from worker.distributed.assignment_reconciler import AssignmentReconciler
from worker.distributed.config_sync import ConfigSync
from worker.distributed.group_session import GroupSession
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.local_instances import LocalInstances
from worker.distributed.local_restarts import LocalRestarts
from worker.distributed.session_key_manager import SessionKeyManager
from worker.distributed.status_writer import StatusWriter
from worker.model import TaskId
from worker.storage.config_state import ConfigState
from worker.storage.record_codec import RestartRequest, SessionKey

_OBSERVE_AFTER_S = 2.0
"""The worker that makes a change records its origin in the history; only then is it checked whether the history has it."""


@dataclass(slots=True)
class ConfigChanges:
    """Connectors that changed in the config topic, by kind of change."""

    updated: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    retargeted: set[str] = field(default_factory=set)
    new_tasks: set[str] = field(default_factory=set)


class ConfigChangeHandler(Protocol):
    """Follows changes, on the herder's thread."""

    def follow(self, changes: ConfigChanges) -> None: ...

    def follow_session_key(self) -> None: ...

    def follow_restart_request(self, request: RestartRequest) -> None: ...


class ConfigChangeListener:
    """Implements :class:`worker.storage.config_store.ConfigListener`. Changes in quick succession are followed together."""

    def __init__(
        self, loop: HerderLoop, handler: Callable[[], ConfigChangeHandler], on_logger_level: Callable[[str, str], None]
    ) -> None:
        """``handler`` is called on the herder's thread; ``on_logger_level`` on the store's, for a level of the cluster's
        loggers."""
        self._loop = loop
        self._handler = handler
        self._on_logger_level = on_logger_level
        self._pending: ConfigChanges | None = None

    def on_connector_config(self, name: str) -> None:
        self._loop.post(lambda: self._queued().updated.add(name))

    def on_connector_removed(self, name: str) -> None:
        self._loop.post(lambda: self._queued().removed.add(name))

    def on_task_configs(self, name: str, tasks: Sequence[TaskId]) -> None:
        self._loop.post(lambda: self._queued().new_tasks.add(name))

    def on_target_state(self, name: str) -> None:
        self._loop.post(lambda: self._queued().retargeted.add(name))

    def on_session_key(self, key: SessionKey) -> None:
        self._loop.post(lambda: self._handler().follow_session_key())

    def on_restart_request(self, request: RestartRequest) -> None:
        self._loop.post(lambda: self._handler().follow_restart_request(request))

    def on_logger_level(self, namespace: str, level: str) -> None:
        self._on_logger_level(namespace, level)

    def _queued(self) -> ConfigChanges:
        """Returns the changes that are queued to be followed."""
        if self._pending is None:
            self._pending = ConfigChanges()
            self._loop.post(self._follow)
        return self._pending

    def _follow(self) -> None:
        changes, self._pending = self._pending, None
        assert changes is not None
        self._handler().follow(changes)


class ConfigChangeFollower:
    """Implements :class:`ConfigChangeHandler`: restarts, pauses, or stops what runs here, and requests rebalances."""

    def __init__(
        self,
        loop: HerderLoop,
        config: ConfigSync,
        group: GroupSession,
        instances: LocalInstances,
        reconciler: AssignmentReconciler,
        statuses: StatusWriter,
        restarts: LocalRestarts,
        keys: SessionKeyManager,
        values: ResolvedConfigs,
        observe: Callable[[str, Mapping[str, str | None] | None], None],
    ) -> None:
        """``observe`` adds a configuration to the history, if it is not there."""
        self._loop = loop
        self._config = config
        self._group = group
        self._instances = instances
        self._reconciler = reconciler
        self._statuses = statuses
        self._restarts = restarts
        self._keys = keys
        self._values = values
        self._observe = observe

    def follow_session_key(self) -> None:
        self._keys.schedule_renewal()

    def follow_restart_request(self, request: RestartRequest) -> None:
        self._restarts.restart_planned(request)

    def follow(self, changes: ConfigChanges) -> None:
        before = apply_newest_config(self._config, self._group, self._reconciler)
        if not self._group.is_ready:
            self._group.rejoin("the configuration changed")  # the first assignment includes all changes
            return
        reasons = []
        for name in changes.removed:
            self._values.forget(name)
            if name in self._instances.connectors:
                self._statuses.reset_topics(name)
            reasons.append(f"connector {name} was deleted")
        for name in changes.updated:
            if not before.contains(name) or name in changes.removed:
                reasons.append(f"connector {name} is new")
            if name in self._instances.connectors:
                self._reconciler.stop_connector(name)  # starts again with the new configuration
        retargeted = changes.retargeted - changes.removed
        for name in retargeted:
            self._reconciler.follow_target(name)
        for name in changes.new_tasks:
            self._reconciler.tasks_changed(name, self._config.state.offset)
            reasons.append(f"connector {name} has new task configurations")
        for name in changes.updated | changes.removed | retargeted:
            self._statuses.reset_restarts(name)
        self._reconciler.reconcile()
        if self._group.current.is_leader:
            for name in changes.updated | changes.removed:
                self._loop.post(partial(self._observe_config, name), _OBSERVE_AFTER_S)
        if reasons:
            self._group.rejoin("; ".join(reasons[:3]))

    def _observe_config(self, name: str) -> None:
        """Adds a change by a worker without a history, such as Apache's, to the history."""
        self._observe(name, self._config.store.snapshot().config(name))


def apply_newest_config(config: ConfigSync, group: GroupSession, reconciler: AssignmentReconciler) -> ConfigState:
    """Goes by everything read from the config topic so far. Returns the previous configuration."""
    before = config.apply_snapshot()
    if group.is_ready:
        # Their change event is still to come, but no changed task may start before the rebalance that follows from it.
        reconciler.stop_changed_tasks(before)
    return before
