"""Task configurations: asked of connectors that run here, and given to the leader, who writes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import orjson

from connect.errors import ForbiddenError, IllegalStateError
from worker.distributed.leader_client import Peers
from worker.executor import Executor
from worker.executors.futures import failed, outcome
from worker.model import TargetState
from worker.storage.config_state import ConfigState

if TYPE_CHECKING:
    from worker.distributed.herder_core import Coordination

log = logging.getLogger(__name__)

_RETRY_FIRST_S, _RETRY_MOST_S = 0.25, 60.0


class Publishing:
    """A part of the herder, on its thread."""

    def __init__(self, coordination: Coordination, peers: Peers, executor: Executor, pool: ThreadPoolExecutor) -> None:
        self._c = coordination
        self._peers = peers
        self._executor = executor
        self._pool = pool
        self._asking: set[str] = set()
        self._ask_again: set[str] = set()
        self._retries: dict[str, float] = {}
        self._pending: dict[str, Callable[[], None]] = {}
        """What is to be tried again, by connector."""

    def reconfigure(self, name: str) -> None:
        """Asks a connector that runs here for its tasks, and tells the leader when they are others."""
        connector = self._c.work.connectors.get(name)
        if connector is None or self._c.state.target_state(name) is not TargetState.STARTED:
            return
        if name in self._asking:
            self._ask_again.add(name)
            return
        self._asking.add(name)
        future = self._executor.task_configs(name)
        future.add_done_callback(lambda f: self._c.loop.post(partial(self._configured, name, connector.run, f)))

    def round_over(self) -> None:
        """The group has a leader again: what was refused meanwhile is tried at once. While connectors are created one after the
        other one round follows another, and those that had to wait would wait longer and longer."""
        self._retries.clear()
        pending, self._pending = self._pending, {}
        for again in pending.values():
            # One by one, so that requests have their turn.
            self._c.loop.post(again)

    def _configured(self, name: str, run: int, future: Future[list[dict[str, str]]]) -> None:
        self._asking.discard(name)
        if name in self._ask_again:
            self._ask_again.discard(name)
            self.reconfigure(name)
            return
        connector = self._c.work.connectors.get(name)
        if connector is None or connector.run != run:
            return
        error = future.exception()
        if error is not None:
            log.warning("Connector %s gave no task configurations: %s", name, error)
            return
        self._publish(name, run, future.result())

    def _publish(self, name: str, run: int, configs: list[dict[str, str]]) -> None:
        if not self._c.state.contains(name) or not task_configs_changed(self._c.state, name, configs):
            self._retries.pop(name, None)
            return
        if self._c.membership.is_leader and not self._c.rejoining:
            future = outcome(lambda: self._c.leader.put_task_configs(name, configs))
        elif self._c.membership.leader_url and not self._c.membership.is_leader:
            leader_url = self._c.membership.leader_url
            body = orjson.dumps(configs)
            headers = self._c.signature(body)
            future = self._pool.submit(lambda: self._peers.put_task_configs(leader_url, name, body, headers))
        else:
            future = failed(IllegalStateError("the leader of the group is not known yet"))
        future.add_done_callback(lambda f: self._c.loop.post(partial(self._published, name, run, configs, f)))

    def _published(self, name: str, run: int, configs: list[dict[str, str]], future: Future[None]) -> None:
        error = future.exception()
        if error is None:
            self._retries.pop(name, None)
            return
        delay_s = self._retries.get(name, _RETRY_FIRST_S)
        self._retries[name] = min(delay_s * 2, _RETRY_MOST_S)
        # A signature is refused for a moment when the key has just been changed, and during a rebalance nobody leads.
        quiet = isinstance(error, ForbiddenError | IllegalStateError) and delay_s < 2.0
        log.log(
            logging.DEBUG if quiet else logging.WARNING,
            "Task configurations of connector %s could not be given to the leader, trying again in %.2f s: %s",
            name,
            delay_s,
            error,
        )

        def again() -> None:
            connector = self._c.work.connectors.get(name)
            if connector is not None and connector.run == run and name not in self._asking:
                self._publish(name, run, configs)

        def when_due() -> None:
            if self._pending.get(name) is again:
                del self._pending[name]
                again()

        self._pending[name] = again
        self._c.loop.post(when_due, delay_s)


def task_configs_changed(state: ConfigState, name: str, configs: Sequence[Mapping[str, str]]) -> bool:
    """Whether the tasks are to be written anew: other configurations, or made from another configuration of the connector, which
    tasks also take converters and transformations from."""
    stored = state.task_configs(name)
    if len(stored) != len(configs) or state.is_inconsistent(name):
        return True
    if any(dict(one) != dict(other) for one, other in zip(stored, configs, strict=True)):
        return True
    return state.applied_config(name) != state.config(name)
