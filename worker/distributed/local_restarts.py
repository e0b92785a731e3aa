"""Restarts of what runs on this worker: asked for over REST, planned by the leader, or because it failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import TYPE_CHECKING

from connect.errors import ConnectError
from worker.distributed.assignment_reconciler import RunningConnector, RunningTask
from worker.distributed.status_writer import Instance, StatusWriter
from worker.executors.futures import pass_on
from worker.model import TaskId
from worker.operations.restart_plan import to_restart
from worker.storage.record_codec import RestartRequest

if TYPE_CHECKING:
    from worker.distributed.herder_core import Coordination

_START_S = 60.0
_LOOK_S = 0.02


class LocalRestarts:
    """A part of the herder, on its thread."""

    def __init__(self, coordination: Coordination, statuses: StatusWriter) -> None:
        self._c = coordination
        self._statuses = statuses
        self._planned: set[Instance] = set()

    def connector(self, name: str, *, by_hand: bool = True) -> Future[None]:
        """Restarts an instance that runs here; done when it has started, or failed. ``by_hand``: somebody has asked for it."""
        self._c.work.stop_connector(name, for_good=False)
        if by_hand:
            self._statuses.begin_anew(name)
        return self._when_started(lambda: self._c.work.connectors.get(name))

    def tasks(self, tasks: Collection[TaskId], *, by_hand: bool = True) -> Future[None]:
        """Restarts tasks of one connector that run here; done when the first of them was started, or could not be."""
        self._c.work.stop_tasks(tasks)
        first = next(iter(tasks))
        if by_hand:
            self._statuses.begin_anew(first.connector)
        return self._when_started(lambda: self._c.work.tasks.get(first))

    def planned(self, request: RestartRequest) -> None:
        """A restart that the leader wrote into the config topic: each worker does its part (KIP-745)."""
        status = self._statuses.connector_status(request.name)
        if status is None:
            return
        work = self._c.work
        connector, numbers = to_restart(status, include_tasks=request.include_tasks, only_failed=request.only_failed)
        tasks = [task for number in numbers if (task := TaskId(request.name, number)) in work.tasks]
        if connector and request.name in work.connectors:
            self._planned.add(request.name)
            work.stop_connector(request.name, for_good=False)
        self._planned.update(tasks)
        work.stop_tasks(tasks)
        self._statuses.begin_anew(request.name)
        work.reconcile()

    def goes_on(self, instance: Instance) -> bool:
        """Whether something that has just stopped did so for a planned restart, which statuses tell of. Once."""
        if instance not in self._planned:
            return False
        self._planned.discard(instance)
        return True

    def _when_started(self, find: Callable[[], RunningConnector | RunningTask | None]) -> Future[None]:
        outcome: Future[None] = Future()
        deadline = time.monotonic() + self._statuses.graceful_s + _START_S

        def look() -> None:
            found = find()
            if found is not None:
                pass_on(found.started, outcome, lambda _: None)
            elif time.monotonic() > deadline or self._c.stopping:
                outcome.set_exception(ConnectError("it was not started again: it is no longer this worker's"))
            else:
                self._c.loop.post(look, _LOOK_S)

        self._c.work.reconcile()
        look()
        return outcome
