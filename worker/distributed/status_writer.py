"""What became of connectors and tasks, written into the status topic; and the topics they use.

The herder's side of what executors tell: words about runs that are over, or of other workers by now, are not passed on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Protocol

from worker.config.secrets import SecretMask
from worker.distributed.assignment_reconciler import LocalWork
from worker.distributed.herder_loop import HerderLoop
from worker.error_text import describe
from worker.errors.trace import trace_of
from worker.model import ConnectorStatus, Restarts, State, Status, TaskId
from worker.storage.config_state import ConfigState
from worker.storage.status_store import StatusStore

log = logging.getLogger(__name__)

Instance = str | TaskId
"""A connector by its name, or a task."""


_GOES_ON = frozenset({State.RUNNING, State.PAUSED, State.RESTARTING})


class StateListener(Protocol):
    """Hears of states of what runs here, on the herder's thread, before they are written: what heals failures by itself."""

    def on_state(self, instance: Instance, state: State, trace: str | None) -> Restarts | None:
        """What the status is to tell of restarts."""

    def begin_anew(self, name: str) -> None:
        """Somebody has taken a connector in hand: what failed before counts no more."""


class StatusWriter:
    """Implements :class:`worker.executor.ExecutorListener`. Its methods are for any thread, the others for the herder's."""

    def __init__(
        self, store: StatusStore, loop: HerderLoop, worker_id: str, mask: SecretMask, *, tracks_topics: bool, graceful_s: float
    ) -> None:
        self.store = store
        self.generation = 0
        self.graceful_s = graceful_s
        self.work: LocalWork | None = None
        """Set when there is one."""
        self.on_reconfiguration: Callable[[str], None] = _ignore
        self.healing: StateListener | None = None
        self._loop = loop
        self._worker_id = worker_id
        self._mask = mask
        self._tracks_topics = tracks_topics
        self._versions: dict[Instance, str | None] = {}

    # --- from executors

    def on_connector_state(self, run: int, name: str, state: State, trace: str | None, version: str | None) -> None:
        self._loop.post(lambda: self._heard(run, name, state, trace, version))

    def on_task_state(self, run: int, task: TaskId, state: State, trace: str | None, version: str | None) -> None:
        self._loop.post(lambda: self._heard(run, task, state, trace, version))

    def on_reconfiguration_requested(self, run: int, name: str) -> None:
        def ask() -> None:
            if self._is_latest(name, run):
                self.on_reconfiguration(name)

        self._loop.post(ask)

    def on_topics(self, run: int, task: TaskId, topics: Collection[str]) -> None:
        if not self._tracks_topics:
            return

        def note() -> None:
            # A task may say so on its way out, when the topics of its deleted connector are forgotten already.
            if self._is_latest(task, run) and self.work is not None and self.work.exists(task.connector):
                for topic in topics:
                    self.store.add_topic(task.connector, task.task, topic)

        self._loop.post(note)

    def _heard(self, run: int, instance: Instance, state: State, trace: str | None, version: str | None) -> None:
        if not self._is_latest(instance, run):
            log.debug("%s said %s in a run that is over", instance, state.value)
            return
        self._versions[instance] = version
        if state in _GOES_ON and self.work is not None and not self.work.is_wanted(instance, run):
            # A start that was under way when it was to stop. Another worker may run it by now and have said so: this would hide
            # that, and the word that it has ended here, which follows, would stay.
            log.debug("%s said %s after it was to stop", instance, state.value)
            return
        if state is State.FAILED:
            # Executors log the failure where it happens, with Python's own trace.
            log.debug("%s failed", instance)
            if self.work is not None and not self.work.is_wanted(instance, run):
                # On its way out, as the executor did not know yet that it was to stop: that it has ended is all that counts.
                state, trace = State.UNASSIGNED, None
        self.tell(instance, state, trace)

    def _is_latest(self, instance: Instance, run: int) -> bool:
        return self.work is not None and self.work.is_latest(instance, run)

    # --- from the herder

    def tell(self, instance: Instance, state: State, trace: str | None = None) -> None:
        """Writes a state of something that is, or just was, this worker's."""
        # A restart is told without the version: the next one may be another (recording life_cycle).
        version = None if state is State.RESTARTING else self._versions.get(instance)
        restarts = None if self.healing is None else self.healing.on_state(instance, state, trace)
        status = Status(state, self._worker_id, trace, self.generation, version, restarts)
        if state in (State.FAILED, State.UNASSIGNED):
            self.store.put_safe(instance, status)
        else:
            self.store.put(instance, status)

    def begin_anew(self, name: str) -> None:
        """Somebody has taken a connector in hand: restarted it, changed it, paused or resumed it."""
        if self.healing is not None:
            self.healing.begin_anew(name)

    def failed(self, instance: Instance, error: BaseException) -> None:
        """It could not be started, for a reason of the worker's."""
        log.error("%s could not be started: %s", _called(instance), describe(error), exc_info=error)
        self.tell(instance, State.FAILED, trace_of(error, self._mask))

    def connector_status(self, name: str) -> ConnectorStatus | None:
        """As the status topic has it; the type is left open."""
        connector = self.store.get(name)
        if connector is None:
            return None
        return ConnectorStatus(name, connector, sorted(self.store.get_all(name).items()), "unknown")

    def reset_topics(self, name: str) -> None:
        """Forgets the topics that a connector used."""
        if self._tracks_topics:
            self.store.reset_topics(name)

    def remove_unknown(self, state: ConfigState) -> None:
        """Removes statuses of what is configured no more; the leader does that after each round."""
        for name in self.store.connectors():
            gone = not state.contains(name)
            configured = set(state.tasks(name)) if not gone else set()
            for number in self.store.get_all(name):
                task = TaskId(name, number)
                if task not in configured:
                    self.store.delete(task)
                    self._versions.pop(task, None)
            if gone:
                self.reset_topics(name)
                self.store.delete(name)
                self._versions.pop(name, None)


def _called(instance: Instance) -> str:
    return f"Connector {instance}" if isinstance(instance, str) else f"Task {instance}"


def _ignore(name: str) -> None:
    pass
