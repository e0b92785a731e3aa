"""Statuses of this worker's connectors and tasks, written to the status topic."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

from worker.config.secrets import SecretMask
from worker.distributed.local_instances import Instance
from worker.error_text import describe
from worker.errors.trace import trace_of
from worker.model import ConnectorStatus, Restarts, Stall, State, Status, TaskId
from worker.storage.config_state import ConfigState
from worker.storage.record_codec import DocumentKind
from worker.storage.status_store import StatusStore

log = logging.getLogger(__name__)


class StateObserver(Protocol):
    """Receives states before they are written, on the herder's thread: automatic restarts."""

    def on_state(self, instance: Instance, state: State, trace: str | None) -> Restarts | None:
        """Returns the restarts that the status shows."""

    def reset(self, name: str) -> Sequence[tuple[Instance, str | None]]:
        """Resets the restart counters of a connector. Returns its instances that stay FAILED, with their traces."""


class StatusWriter:
    """Used by the herder's thread only."""

    def __init__(
        self, store: StatusStore, worker_id: str, mask: SecretMask, observer: StateObserver, *, tracks_topics: bool
    ) -> None:
        self._store = store
        self._tracks_topics = tracks_topics
        self._worker_id = worker_id
        self._mask = mask
        self._observer = observer
        self._generation = 0
        self._versions: dict[Instance, str | None] = {}
        self._restarting: set[Instance] = set()
        self._last: dict[Instance, Status] = {}
        """The last status that this worker wrote for each of its instances."""

    def set_generation(self, generation: int) -> None:
        """Sets the generation of the group that statuses carry."""
        self._generation = generation

    def set_version(self, instance: Instance, version: str | None) -> None:
        """Sets the plugin version that statuses of an instance carry."""
        self._versions[instance] = version

    def report(self, instance: Instance, state: State, trace: str | None = None) -> None:
        """Writes the state of an instance that is, or just was, this worker's."""
        # RESTARTING carries no version: the next one may differ (recording life_cycle).
        version = None if state is State.RESTARTING else self._versions.get(instance)
        restarts = self._observer.on_state(instance, state, trace)
        status = self._last[instance] = Status(state, self._worker_id, trace, self._generation, version, restarts)
        if state in (State.FAILED, State.UNASSIGNED):
            self._store.put_safe(instance, status)
        else:
            self._store.put(instance, status)

    def last_status(self, instance: Instance) -> Status | None:
        """Returns the last status that this worker wrote for an instance, the same object until it writes another."""
        return self._last.get(instance)

    def report_stall(self, instance: Instance, stall: Stall | None) -> None:
        """Adds a stall to the status of an instance of this worker, or removes it. A new state removes it too."""
        status = self._last.get(instance)
        if status is None:
            # A connector whose start hangs has no state yet.
            status = Status(State.UNASSIGNED, self._worker_id, None, self._generation, self._versions.get(instance))
        if status.stalled != stall:
            self._last[instance] = replace(status, stalled=stall)
            self._store.put(instance, self._last[instance])

    def report_not_started(self, instance: Instance, error: BaseException) -> None:
        """Writes FAILED for an instance that could not be asked to start."""
        log.error("%s could not be started: %s", _label(instance), describe(error), exc_info=error)
        self.report(instance, State.FAILED, trace_of(error, self._mask))

    def report_stopped(self, connector: str) -> None:
        """Writes the state of a connector that has stopped: UNASSIGNED, then RESTARTING if it is being restarted."""
        self.report(connector, State.UNASSIGNED)
        self.report_if_restarting(connector)

    def show_as_restarting(self, instances: Collection[Instance]) -> None:
        """Has the next stop of these instances reported as RESTARTING."""
        self._restarting.update(instances)

    def report_if_restarting(self, instance: Instance) -> None:
        """Writes RESTARTING, once, for an instance of :meth:`show_as_restarting`."""
        if instance in self._restarting:
            self._restarting.discard(instance)
            self.report(instance, State.RESTARTING)

    def reset_restarts(self, name: str) -> None:
        """Resets the automatic restarts of a connector that somebody restarted, changed, paused, or resumed."""
        for instance, trace in self._observer.reset(name):
            # It is not restarted now, and its restarts begin as after a first failure.
            self.report(instance, State.FAILED, trace)

    def connector_status(self, name: str) -> ConnectorStatus | None:
        """Returns the status in the status topic, with the type ``unknown``."""
        return next(iter(self._store.connector_statuses((name,))), None)

    def reset_topics(self, name: str) -> None:
        """Clears the topics that a connector used."""
        if self._tracks_topics:
            self._store.reset_topics(name)

    def remove_unknown(self, state: ConfigState) -> None:
        """Removes statuses of connectors and tasks that are not configured; the leader's duty after each rebalance."""
        for name in self._store.documents(DocumentKind.VERIFICATION):
            if not state.contains(name):
                self._store.put_document(DocumentKind.VERIFICATION, name, None)
        for name in self._store.connectors():
            is_configured = state.contains(name)
            configured = set(state.tasks(name)) if is_configured else set()
            for number in self._store.get_all(name):
                task = TaskId(name, number)
                if task not in configured:
                    self._store.delete(task)
                    self._versions.pop(task, None)
                    self._last.pop(task, None)
            if not is_configured:
                self.reset_topics(name)
                self._store.delete(name)
                self._versions.pop(name, None)
                self._last.pop(name, None)


def _label(instance: Instance) -> str:
    return f"Connector {instance}" if isinstance(instance, str) else f"Task {instance}"
