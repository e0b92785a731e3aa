"""Zombie fencing before tasks of an exactly-once source start (KIP-618)."""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor

from connect.backoff import Backoff
from connect.errors import ConnectError, ForbiddenError, IllegalStateError, NotReadyError, UnreachableError
from worker.config.distributed_config import DistributedSettings, ExactlyOnce
from worker.config.isolation import ENVIRONMENT
from worker.distributed.config_sync import ConfigSync
from worker.distributed.group_session import GroupSession
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.leader import Leader
from worker.distributed.leader_client import LeaderClient
from worker.distributed.local_instances import LocalInstances
from worker.distributed.session_key_manager import SessionKeyManager
from worker.executor import Executor
from worker.executors.futures import failed
from worker.executors.futures import outcome as outcome_of

log = logging.getLogger(__name__)

_RETRY_FIRST_S, _RETRY_MOST_S = 0.25, 5.0
_TRANSIENT = (UnreachableError, IllegalStateError, NotReadyError, ForbiddenError)
"""Errors of a leader that may pass: it is unavailable, the group rebalances, or its session key is newer than ours."""


class SourceFencing:
    """Used by the herder's thread only."""

    def __init__(
        self,
        settings: DistributedSettings,
        loop: HerderLoop,
        config: ConfigSync,
        group: GroupSession,
        instances: LocalInstances,
        leader: Leader,
        leader_client: LeaderClient,
        keys: SessionKeyManager,
        executor: Executor,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._settings = settings
        self._loop = loop
        self._config = config
        self._group = group
        self._instances = instances
        self._leader = leader
        self._leader_client = leader_client
        self._keys = keys
        self._executor = executor
        self._pool = pool

    def before_tasks(self, name: str) -> Future[str | None]:
        """Fences earlier producers of a connector, if it is a source and exactly-once is enabled. The result is the prefix of its
        tasks' transactional IDs, else None."""
        if self._settings.exactly_once is not ExactlyOnce.ENABLED:
            return outcome_of(lambda: None)
        config = self._config.state.config(name) or {}
        outcome: Future[str | None] = Future()

        def look_up_type() -> None:
            try:
                facts = self._executor.facts(config.get("connector.class") or "", config.get(ENVIRONMENT))
            except ConnectError as e:
                outcome.set_exception(e)
                return
            if facts.type == "source":
                self._loop.post(lambda: self._fence_until_done(name, outcome, Backoff(_RETRY_FIRST_S, _RETRY_MOST_S)))
            else:
                outcome.set_result(None)

        self._pool.submit(look_up_type)
        return outcome

    def _fence_until_done(self, name: str, outcome: Future[str | None], backoff: Backoff) -> None:
        """Fences earlier producers of a connector. While the leader is unavailable or changes, retries as long as tasks of the
        connector wait here."""

        def answered(error: BaseException | None) -> None:
            if error is None:
                outcome.set_result(f"{self._settings.group_id}-{name}-")
            elif not isinstance(error, _TRANSIENT):
                outcome.set_exception(error)
            elif not self._instances.has_tasks_of(name):
                outcome.set_exception(ConnectError(f"Tasks of connector {name} are no longer to start on this worker"))
            else:
                log.info("Producers of earlier tasks of connector %s are not fenced yet: %s; trying again", name, error)
                self._loop.post(lambda: self._fence_until_done(name, outcome, backoff), backoff.next_delay_s())

        self._fence(name).add_done_callback(lambda f: self._loop.post(lambda: answered(f.exception())))

    def _fence(self, name: str) -> Future[None]:
        """Has the leader fence producers of earlier tasks of a connector."""
        generation = self._group.current
        if self._group.is_rebalancing or not generation.leader_url:
            return failed(IllegalStateError("the leader of the group is not known yet"))
        if generation.is_leader:
            return self._leader.fence(name, self._loop)
        headers = self._keys.sign(b"")
        return self._pool.submit(lambda: self._leader_client.fence_zombies(generation.leader_url, name, headers))
