"""Changes in the config topic: heard on the store's thread, followed on the herder's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from worker.config.resolved_config import ResolvedConfigs
from worker.distributed.status_writer import StatusWriter
from worker.model import TaskId
from worker.storage.record_codec import RestartRequest, SessionKey

if TYPE_CHECKING:
    from worker.distributed.herder_core import Coordination

_OBSERVE_AFTER_S = 2.0
"""Whoever made a change records it with where it came from; only then is it looked whether it is known."""


class ConfigChanges:
    """Implements :class:`worker.storage.config_store.ConfigListener`. Changes that come close together are followed together."""

    def __init__(
        self,
        coordination: Coordination,
        values: ResolvedConfigs,
        statuses: StatusWriter,
        on_logger_level: Callable[[str, str], None],
        observe: Callable[[str, Mapping[str, str | None] | None], None],
    ) -> None:
        """``observe`` notes a configuration in the history, if it is not known."""
        self._c = coordination
        self._values = values
        self._statuses = statuses
        self._on_logger_level = on_logger_level
        self._observe = observe
        self._updated: set[str] = set()
        self._removed: set[str] = set()
        self._retargeted: set[str] = set()
        self._new_tasks: set[str] = set()
        self._queued = False

    # --- on the store's thread

    def on_connector_config(self, name: str) -> None:
        self._note(self._updated, name)

    def on_connector_removed(self, name: str) -> None:
        self._note(self._removed, name)

    def on_task_configs(self, name: str, tasks: Sequence[TaskId]) -> None:
        self._note(self._new_tasks, name)

    def on_target_state(self, name: str) -> None:
        self._note(self._retargeted, name)

    def on_session_key(self, key: SessionKey) -> None:
        self._c.loop.post(self._c.schedule_key_renewal)

    def on_restart_request(self, request: RestartRequest) -> None:
        self._c.loop.post(lambda: self._c.restarts.planned(request))

    def on_logger_level(self, namespace: str, level: str) -> None:
        self._on_logger_level(namespace, level)

    def _note(self, what: set[str], name: str) -> None:
        def note() -> None:
            what.add(name)
            if not self._queued:
                self._queued = True
                self._c.loop.post(self._follow)

        self._c.loop.post(note)

    # --- on the herder's

    def _follow(self) -> None:
        self._queued = False
        before = self._c.take_snapshot()
        updated, removed = self._updated.copy(), self._removed.copy()
        retargeted, new_tasks = self._retargeted - removed, self._new_tasks.copy()
        for noted in (self._updated, self._removed, self._retargeted, self._new_tasks):
            noted.clear()
        if not self._c.ready:
            self._c.rejoin("the configuration changed")  # the first round of the group brings all of it
            return
        state, work = self._c.state, self._c.work
        reasons = []
        for name in removed:
            self._values.forget(name)
            if name in work.connectors:
                self._statuses.reset_topics(name)
            reasons.append(f"connector {name} was deleted")
        for name in updated:
            if not before.contains(name) or name in removed:
                reasons.append(f"connector {name} is new")
            if name in work.connectors:
                work.stop_connector(name, for_good=False)  # starts again with the new configuration
        for name in retargeted:
            work.follow_target(name)
        for name in new_tasks:
            work.tasks_changed(name, state.offset)
            reasons.append(f"connector {name} has other tasks")
        for name in updated | removed | retargeted:
            self._statuses.begin_anew(name)
        work.reconcile()
        if self._c.membership.is_leader:
            for name in updated | removed:
                self._c.loop.post(partial(self._observe_config, name), _OBSERVE_AFTER_S)
        if reasons:
            self._c.rejoin("; ".join(reasons[:3]))

    def _observe_config(self, name: str) -> None:
        """A change that no worker with a history has made, as Apache's workers, is known from the config topic alone."""
        self._observe(name, self._c.store.snapshot().config(name))
