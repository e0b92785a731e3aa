"""Task configurations: requested from connectors that run here, and given to the leader, who writes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import orjson

from connect.backoff import Backoff
from connect.errors import ForbiddenError, IllegalStateError
from worker.distributed.config_sync import ConfigSync
from worker.distributed.group_session import GroupSession
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.leader import Leader
from worker.distributed.leader_client import LeaderClient
from worker.distributed.local_instances import LocalInstances
from worker.distributed.session_key_manager import SessionKeyManager
from worker.executor import Executor
from worker.executors.futures import failed, outcome
from worker.model import TargetState
from worker.storage.config_state import ConfigState

log = logging.getLogger(__name__)

_RETRY_FIRST_S, _RETRY_MOST_S = 0.25, 60.0


class TaskConfigPublisher:
    """Used by the herder's thread only."""

    def __init__(
        self,
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
        self._loop = loop
        self._config = config
        self._group = group
        self._instances = instances
        self._leader = leader
        self._leader_client = leader_client
        self._keys = keys
        self._executor = executor
        self._pool = pool
        self._requested: set[str] = set()
        self._request_again: set[str] = set()
        self._backoffs: dict[str, Backoff] = {}
        self._pending: dict[str, Callable[[], None]] = {}
        """Retries by connector."""

    def reconfigure(self, name: str) -> None:
        """Requests the task configurations of a connector that runs here, and gives them to the leader if they changed."""
        connector = self._instances.connectors.get(name)
        if connector is None or self._config.state.target_state(name) is not TargetState.STARTED:
            return
        if name in self._requested:
            self._request_again.add(name)
            return
        self._requested.add(name)
        future = self._executor.task_configs(name)
        future.add_done_callback(lambda f: self._loop.post(partial(self._configured, name, connector.start_id, f)))

    def rebalanced(self) -> None:
        """Retries immediately what was refused during a rebalance. Connectors that are created one after the other cause one
        rebalance after another; without this, waiting ones would back off further each time."""
        self._backoffs.clear()
        pending, self._pending = self._pending, {}
        for retry in pending.values():
            # One by one, so that requests have their turn.
            self._loop.post(retry)

    def _configured(self, name: str, start_id: int, future: Future[list[dict[str, str]]]) -> None:
        self._requested.discard(name)
        if name in self._request_again:
            self._request_again.discard(name)
            self.reconfigure(name)
            return
        if not self._is_current(name, start_id):
            return
        error = future.exception()
        if error is not None:
            log.warning("Connector %s did not return task configurations: %s", name, error)
            return
        self._publish(name, start_id, future.result())

    def _is_current(self, name: str, start_id: int) -> bool:
        connector = self._instances.connectors.get(name)
        return connector is not None and connector.start_id == start_id

    def _publish(self, name: str, start_id: int, configs: list[dict[str, str]]) -> None:
        state = self._config.state
        if not state.contains(name) or not task_configs_changed(state, name, configs):
            self._backoffs.pop(name, None)
            return
        generation = self._group.current
        if generation.is_leader and not self._group.is_rebalancing:
            future = outcome(lambda: self._leader.put_task_configs(name, configs))
        elif generation.leader_url and not generation.is_leader:
            body = orjson.dumps(configs)
            headers = self._keys.sign(body)
            future = self._pool.submit(lambda: self._leader_client.put_task_configs(generation.leader_url, name, body, headers))
        else:
            future = failed(IllegalStateError("the leader of the group is not known yet"))
        future.add_done_callback(lambda f: self._loop.post(partial(self._published, name, start_id, configs, f)))

    def _published(self, name: str, start_id: int, configs: list[dict[str, str]], future: Future[None]) -> None:
        error = future.exception()
        if error is None:
            self._backoffs.pop(name, None)
            return
        delay_s = self._backoffs.setdefault(name, Backoff(_RETRY_FIRST_S, _RETRY_MOST_S)).next_delay_s()
        # A signature is rejected for a moment after the key has changed, and a rebalance has no leader.
        quiet = isinstance(error, ForbiddenError | IllegalStateError) and delay_s < 2.0
        log.log(
            logging.DEBUG if quiet else logging.WARNING,
            "Task configurations of connector %s could not be given to the leader, trying again in %.2f s: %s",
            name,
            delay_s,
            error,
        )

        def retry() -> None:
            if self._is_current(name, start_id) and name not in self._requested:
                self._publish(name, start_id, configs)

        def retry_when_due() -> None:
            if self._pending.get(name) is retry:
                del self._pending[name]
                retry()

        self._pending[name] = retry
        self._loop.post(retry_when_due, delay_s)


def task_configs_changed(state: ConfigState, name: str, configs: Sequence[Mapping[str, str]]) -> bool:
    """Returns whether the tasks must be written again: their configurations differ, or they were computed from another
    configuration of the connector, which also sets their converters and transformations."""
    stored = state.task_configs(name)
    if len(stored) != len(configs) or state.is_inconsistent(name):
        return True
    if any(dict(one) != dict(other) for one, other in zip(stored, configs, strict=True)):
        return True
    return state.applied_config(name) != state.config(name)
