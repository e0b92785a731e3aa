"""What has to happen before tasks of an exactly-once source start, and what is looked at while they do (KIP-618)."""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from connect.errors import ConnectError, ForbiddenError, IllegalStateError, NotReadyError, UnreachableError
from worker.config.distributed_config import ExactlyOnce
from worker.config.isolation import ENVIRONMENT
from worker.distributed.leader_client import Peers
from worker.executor import Executor
from worker.executors.futures import failed
from worker.executors.futures import outcome as outcome_of
from worker.model import TaskId

if TYPE_CHECKING:
    from worker.distributed.herder_core import Coordination

log = logging.getLogger(__name__)

_RETRY_FIRST_S, _RETRY_MOST_S = 0.25, 5.0
_PASSING = (UnreachableError, IllegalStateError, NotReadyError, ForbiddenError)
"""Answers of a leader that may be others soon: it is away, a round goes on, or its session key is newer than ours."""


class SourceStarts:
    """A part of the herder, on its thread."""

    def __init__(self, coordination: Coordination, peers: Peers, executor: Executor, pool: ThreadPoolExecutor) -> None:
        self._c = coordination
        self._peers = peers
        self._executor = executor
        self._pool = pool

    def before_tasks(self, name: str) -> Future[str | None]:
        if self._c.settings.exactly_once is not ExactlyOnce.ENABLED:
            return outcome_of(lambda: None)
        config = self._c.state.config(name) or {}
        outcome: Future[str | None] = Future()

        def look() -> None:
            try:
                facts = self._executor.facts(config.get("connector.class") or "", config.get(ENVIRONMENT))
            except ConnectError as e:
                outcome.set_exception(e)
                return
            if facts.type == "source":
                self._c.loop.post(lambda: self._fence_first(name, outcome, _RETRY_FIRST_S))
            else:
                outcome.set_result(None)

        self._pool.submit(look)
        return outcome

    def _fence_first(self, name: str, outcome: Future[str | None], retry_s: float) -> None:
        """Has earlier producers of a connector fenced before its tasks start. The leader may be away or changing: then it is
        asked again, for as long as there are tasks here that wait for it."""

        def answered(error: BaseException | None) -> None:
            if error is None:
                outcome.set_result(f"{self._c.settings.group_id}-{name}-")
            elif not isinstance(error, _PASSING):
                outcome.set_exception(error)
            elif not any(task.connector == name for task in self._c.work.tasks):
                outcome.set_exception(ConnectError(f"Tasks of connector {name} are not to start here any more"))
            else:
                log.info("Producers of earlier tasks of connector %s are not fenced yet: %s; trying again", name, error)
                self._c.loop.post(lambda: self._fence_first(name, outcome, min(retry_s * 2, _RETRY_MOST_S)), retry_s)

        self.fenced(name).add_done_callback(lambda f: self._c.loop.post(lambda: answered(f.exception())))

    def fenced(self, name: str) -> Future[None]:
        """Producers of earlier tasks of a connector are fenced, by the leader."""
        membership = self._c.membership
        if self._c.rejoining or not membership.leader_url:
            return failed(IllegalStateError("the leader of the group is not known yet"))
        if membership.is_leader:
            return self._c.leader.fence(name, self._c.loop)
        headers = self._c.signature(b"")
        return self._pool.submit(lambda: self._peers.fence_zombies(membership.leader_url, name, headers))

    def require_current(self, run: int, task: TaskId) -> None:
        """Raises ConnectError when a run of a task is over, or its configuration is no longer the newest."""
        running = self._c.work.tasks.get(task)
        refusal = f"Cannot start source task {task} with exactly-once support as"
        if running is not None and running.generation != self._c.store.snapshot().task_generation(task.connector):
            raise ConnectError(f"{refusal} the connector has already generated a new set of task configs")
        if running is None or running.run != run or not self._c.work.owns_task(task):
            raise ConnectError(f"{refusal} it has already been revoked from this worker")
