"""Carries out requests on the herder's thread: as leader of the group, or as owner of an instance."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TypeVar

from connect.errors import ConnectError, IllegalStateError, NotFoundError, NotLeaderError
from worker.config.secrets import SecretMask, mask_error
from worker.distributed.config_sync import ConfigSync
from worker.distributed.group_session import GroupSession
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.leader import Leader
from worker.distributed.local_instances import Instance, LocalInstances, connector_of
from worker.distributed.local_restarts import LocalRestarts
from worker.executors.futures import outcome
from worker.model import TaskId

T = TypeVar("T")

log = logging.getLogger(__name__)

_REQUEST_TIMEOUT_S = 85.0
"""Below the 90 seconds after which REST gives up."""
_REBALANCE_WAIT_S = 10.0
"""How long a request waits for the end of a rebalance. Apache's workers answer 409 at once, and every client then retries."""
_RETRY_S = 0.05
_NO_LEADER = "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."


class HerderRequests:
    """Called on threads of requests; blocks until a request is done, up to its timeout."""

    def __init__(
        self,
        loop: HerderLoop,
        config: ConfigSync,
        group: GroupSession,
        leader: Leader,
        instances: LocalInstances,
        restarts: LocalRestarts,
        is_stopping: Callable[[], bool],
        own_url: str,
        mask: SecretMask,
    ) -> None:
        """``is_stopping`` says whether instances of this worker are being stopped."""
        self._loop = loop
        self._config = config
        self._group = group
        self._leader = leader
        self._instances = instances
        self._restarts = restarts
        self._is_stopping = is_stopping
        self._own_url = own_url
        self._mask = mask

    def require_leader(self) -> None:
        """Raises NotLeaderError early, before work that takes long."""
        current = self._group.current
        if current.number >= 0 and not current.is_leader:
            raise NotLeaderError("Only the leader can change connectors", current.leader_url)

    def as_leader(self, job: Callable[[], T]) -> T:
        """Runs a job on the herder's thread, as leader of a group that does not rebalance. Raises NotLeaderError."""
        return self.as_leader_async(lambda: outcome(job))

    def as_leader_async(self, job: Callable[[], Future[T]]) -> T:
        """Runs a job like :meth:`as_leader`; it is done when its future is."""

        def attempt() -> Future[T]:
            current = self._group.current
            if self._group.is_rebalancing:
                raise _RetryError
            if not current.is_leader:
                raise NotLeaderError("Only the leader can do this", current.leader_url or None)
            return job()

        return self._run(attempt, "the request")

    def restart(self, instance: Instance, unknown: str) -> None:
        """Restarts an instance that runs on this worker. Raises NotFoundError with the message ``unknown`` for an unknown
        connector, NotLeaderError with the owner's URL, or the leader's, for an instance that runs elsewhere."""

        def attempt() -> Future[None]:
            state = self._config.store.snapshot()
            if not state.contains(connector_of(instance)):
                raise NotFoundError(unknown)
            if isinstance(instance, TaskId) and state.task_config(instance) is None:
                raise NotFoundError(f"Unknown task: {instance}")
            if self._instances.find(instance) is not None:
                return self._restarts.restart(instance)
            raise self._runs_elsewhere(instance)

        self._run(attempt, f"restarting {instance}")

    def require_here(self, task: TaskId) -> None:
        """Raises NotLeaderError with the owner's URL, or the leader's, if a task runs elsewhere; IllegalStateError if nowhere."""

        def check() -> None:
            if self._instances.find(task) is None:
                raise self._runs_elsewhere(task)

        self._run(lambda: outcome(check), f"finding {task}")

    def _runs_elsewhere(self, instance: Instance) -> Exception:
        """The error for an instance that does not run on this worker."""
        if self._group.is_rebalancing or self._is_stopping():
            return _RetryError()
        current = self._group.current
        owner = self._leader.owner_url(instance) if current.is_leader else current.leader_url
        if owner == self._own_url:
            return IllegalStateError(f"{instance} is not running on any worker at the moment; try again in a moment")
        what = "connector" if isinstance(instance, str) else "task"
        return NotLeaderError(f"This worker does not run {what} {instance}", owner or None)

    def wait(self, future: Future[T], what: str) -> T:
        """Returns the result of a future. Raises its error without secrets (promise 9), or ConnectError after the timeout."""
        try:
            return future.result(_REQUEST_TIMEOUT_S)
        except FutureTimeout as e:
            log.warning("%s was not done within %d s", what, int(_REQUEST_TIMEOUT_S))
            raise ConnectError(self._loop.activity.timed_out()) from e
        except Exception as e:
            raise mask_error(e, self._mask) from e

    def _run(self, attempt: Callable[[], Future[T]], what: str) -> T:
        """Runs an attempt on the herder's thread, for some time again if it raises _RetryError, and returns its result."""
        done: Future[T] = Future()
        self._attempt(attempt, done, time.monotonic() + _REBALANCE_WAIT_S)
        return self.wait(done, what)

    def _attempt(self, attempt: Callable[[], Future[T]], done: Future[T], deadline: float) -> None:
        def finished(future: Future[T]) -> None:
            error = future.exception()
            if isinstance(error, _RetryError) and time.monotonic() <= deadline:
                self._loop.post(lambda: self._attempt(attempt, done, deadline), _RETRY_S)
            elif isinstance(error, _RetryError):
                done.set_exception(IllegalStateError(_NO_LEADER))
            elif error is not None:
                done.set_exception(error)
            else:
                done.set_result(future.result())

        self._loop.submit(attempt).add_done_callback(finished)


class _RetryError(Exception):
    """The group is in the middle of a rebalance."""
