"""Counts starts, failed starts, and restarts of the connectors and tasks of this worker, and knows which of them are stalled."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from worker.executor import ExecutorListener
from worker.model import Stall, State, TaskId

Instance = str | TaskId
"""A connector by its name, or a task."""


@dataclass(slots=True)
class Startups:
    """How many starts have succeeded and failed since the worker started."""

    succeeded: int = 0
    failed: int = 0


@dataclass(slots=True)
class _Starts:
    start_id: int
    restarts: int = 0
    is_decided: bool = False
    """Whether the outcome of the current start is counted."""
    stall: str | None = None
    """The kind of the current start's stall."""


@dataclass(frozen=True, slots=True)
class StartFigures:
    """All counts at one time. ``restarts`` are the starts of an instance after its first one here, for whatever reason."""

    connectors: Startups
    tasks: Startups
    restarts: Mapping[Instance, int] = field(default_factory=dict)
    stalls: Mapping[Instance, str] = field(default_factory=dict)
    """The kinds of the stalls that there are now."""


class StartCounts:
    """Implements :class:`worker.executor.ExecutorListener`: counts what it passes on."""

    def __init__(self, listener: ExecutorListener) -> None:
        self._listener = listener
        self._lock = threading.Lock()
        self._connectors, self._tasks = Startups(), Startups()
        self._starts: dict[Instance, _Starts] = {}

    def on_connector_state(self, start_id: int, name: str, state: State, trace: str | None, version: str | None) -> None:
        self._count(self._connectors, name, start_id, state)
        self._listener.on_connector_state(start_id, name, state, trace, version)

    def on_task_state(self, start_id: int, task: TaskId, state: State, trace: str | None, version: str | None) -> None:
        self._count(self._tasks, task, start_id, state)
        self._listener.on_task_state(start_id, task, state, trace, version)

    def on_reconfiguration_requested(self, start_id: int, name: str) -> None:
        self._listener.on_reconfiguration_requested(start_id, name)

    def on_topics(self, start_id: int, task: TaskId, topics: Collection[str]) -> None:
        self._listener.on_topics(start_id, task, topics)

    def on_stall(self, start_id: int, instance: Instance, stall: Stall | None) -> None:
        with self._lock:
            # The first report of a start that hangs.
            if (starts := self._of_start(instance, start_id)) is not None:
                starts.stall = None if stall is None else stall.kind
        self._listener.on_stall(start_id, instance, stall)

    def _count(self, startups: Startups, instance: Instance, start_id: int, state: State) -> None:
        with self._lock:
            if (starts := self._of_start(instance, start_id)) is None:
                return  # the end of an earlier start
            starts.stall = None  # as in the status
            if state is State.RESTARTING:
                # Its process has exited: the same start begins again in another one.
                starts.is_decided = False
                starts.restarts += 1
            elif not starts.is_decided and state in (State.RUNNING, State.FAILED):
                starts.is_decided = True
                if state is State.RUNNING:
                    startups.succeeded += 1
                else:
                    startups.failed += 1

    def _of_start(self, instance: Instance, start_id: int) -> _Starts | None:
        """Returns what is known of an instance, after it was started again if it was; None for an earlier start."""
        starts = self._starts.setdefault(instance, _Starts(start_id))
        if start_id < starts.start_id:
            return None
        if start_id > starts.start_id:
            starts.start_id, starts.is_decided, starts.stall = start_id, False, None
            starts.restarts += 1
        return starts

    def figures(self, present: Collection[Instance]) -> StartFigures:
        """Returns the counts. Forgets instances that are not present: they run elsewhere, or are deleted."""
        with self._lock:
            self._starts = {instance: starts for instance, starts in self._starts.items() if instance in present}
            restarts = {instance: starts.restarts for instance, starts in self._starts.items()}
            return StartFigures(
                Startups(self._connectors.succeeded, self._connectors.failed),
                Startups(self._tasks.succeeded, self._tasks.failed),
                restarts,
                {instance: starts.stall for instance, starts in self._starts.items() if starts.stall is not None},
            )
