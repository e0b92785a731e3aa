"""Restarts what uses expired values of config providers (``config.action.reload``), one after the other across the cluster."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import orjson

from connect.errors import ConnectError, IllegalStateError, NotFoundError
from worker.config.resolved_config import ResolvedConfigs, restore_values
from worker.distributed.assignment_reconciler import AssignmentReconciler
from worker.distributed.config_sync import ConfigSync
from worker.distributed.connector_specs import without_nulls
from worker.distributed.group_session import GroupSession
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.leader_client import LeaderClient
from worker.distributed.local_instances import Instance, LocalInstances, StartedWith
from worker.distributed.reload_turns import ReloadTurns
from worker.distributed.session_key_manager import SessionKeyManager
from worker.distributed.status_writer import StatusWriter
from worker.executors.futures import outcome
from worker.model import State, TargetState
from worker.storage.config_state import ConfigState

log = logging.getLogger(__name__)

_POLL_S = 0.1
_TURN_RETRY_S = 1.0
_NO_LEADER_S = 60.0
"""How long to look for a leader that gives turns before restarting without one."""
_RESTART_S = 45.0
"""How long the next instance waits for the restart of one: less than a turn lasts."""
RELOAD_S = 1800.0
"""How long the next connector of this worker waits for the reload of one, mostly for turns of other workers."""
_SETTLED = frozenset({State.RUNNING, State.PAUSED, State.FAILED})
_OF_THE_RUNTIME = (
    "key.converter", "value.converter", "header.converter", "transforms", "predicates", "errors.", "producer.override.",
    "consumer.override.", "admin.override.", "topic.creation.", "offsets.storage.topic",
)  # fmt: skip
"""Prefixes of keys that the runtime reads for a task from its connector's configuration."""


class TakeTurn(Protocol):
    """Asks for the turn of this worker, or ends it. The future raises IllegalStateError while another worker has it,
    NotFoundError if the leader gives no turns."""

    def __call__(self, connector: str, *, done: bool) -> Future[None]: ...


class LeaderTurns:
    """Implements :class:`TakeTurn`: from this worker if it leads the group, else with a request to the leader."""

    def __init__(
        self,
        worker_id: str,
        turns: ReloadTurns,
        group: GroupSession,
        keys: SessionKeyManager,
        leader_client: LeaderClient,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._worker_id = worker_id
        self._turns = turns
        self._group = group
        self._keys = keys
        self._leader_client = leader_client
        self._pool = pool

    def __call__(self, connector: str, *, done: bool) -> Future[None]:
        current = self._group.current
        if current.is_leader:
            return outcome(lambda: change_turn(self._turns, self._worker_id, done=done))
        body = orjson.dumps({"worker": self._worker_id, "done": done})
        headers = self._keys.sign(body)
        url = current.leader_url

        def ask() -> None:
            if not url:
                raise ConnectError("the leader of the group is not known yet")
            self._leader_client.take_reload_turn(url, connector, body, headers)

        return self._pool.submit(ask)


def change_turn(turns: ReloadTurns, worker: str, *, done: bool) -> None:
    """Gives a worker the turn, or ends it. Raises IllegalStateError while another worker has it."""
    if done:
        turns.end(worker)
    elif not turns.take(worker):
        raise IllegalStateError("Another worker is restarting connectors with new config provider values")


class ProviderReload:
    """Restarts the instances on this worker whose values have changed: one at a time, and only while no other worker does. If one
    fails with the new values, the connector's others keep running with the old ones."""

    def __init__(
        self,
        loop: HerderLoop,
        config: ConfigSync,
        values: ResolvedConfigs,
        pool: ThreadPoolExecutor,
        instances: LocalInstances,
        reconciler: AssignmentReconciler,
        statuses: StatusWriter,
        take_turn: TakeTurn,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop = loop
        self._config = config
        self._values = values
        self._pool = pool
        self._instances = instances
        self._reconciler = reconciler
        self._statuses = statuses
        self._take_turn = take_turn
        self._clock = clock

    def reload(self, name: str, only_if_changed: bool) -> Future[None]:
        """Reads a connector's values again, and restarts what uses them. Any thread. Done when everything has restarted."""
        done: Future[None] = Future()

        def look_up() -> None:
            values = self._look_up(name)
            self._loop.post(lambda: self._begin(name, values, only_if_changed, done))

        def failed(future: Future[None]) -> None:
            if (error := future.exception()) is not None:
                done.set_exception(error)

        self._pool.submit(look_up).add_done_callback(failed)
        return done

    def _look_up(self, name: str) -> dict[str, str] | None:
        config = self._config.state.config(name)
        if config is None:
            return None
        try:
            return self._values.resolve_again(name, without_nulls(config))
        except ConnectError as e:
            log.warning("Connector %s keeps its current config provider values: %s", name, e.message)
            self._values.reschedule(name)
            return None

    # --- on the herder's thread

    def _begin(self, name: str, values: Mapping[str, str] | None, only_if_changed: bool, done: Future[None]) -> None:
        chosen = [] if values is None else self._to_restart(name, values, only_if_changed)
        if not chosen:
            done.set_result(None)
            return
        self._await_turn(name, chosen, done, self._clock() + _NO_LEADER_S)

    def _to_restart(self, name: str, values: Mapping[str, str], only_if_changed: bool) -> list[Instance]:
        state = self._config.state
        if state.target_state(name) is not TargetState.STARTED:
            return []
        given = without_nulls(state.config(name) or {})
        own: list[Instance] = [name] if name in self._instances.connectors else []
        own += sorted(task for task in self._instances.tasks if task.connector == name)
        return [one for one in own if not only_if_changed or self._is_affected(one, state, given, values)]

    def _is_affected(self, instance: Instance, state: ConfigState, given: Mapping[str, str], values: Mapping[str, str]) -> bool:
        running = self._instances.find(instance)
        if running is None or running.values is None:
            return False  # it starts with the new values, or never had any
        if isinstance(instance, str):
            return running.values.connector != values
        stored = without_nulls(state.task_config(instance) or {})
        return is_task_affected(running.values, restore_values(stored, given, values), values)

    def _await_turn(self, name: str, chosen: Sequence[Instance], done: Future[None], no_leader_at: float) -> None:
        def answered(future: Future[None]) -> None:
            error = future.exception()
            if error is None or isinstance(error, NotFoundError):
                self._restart_next(name, list(chosen), done)
            elif isinstance(error, IllegalStateError):
                self._loop.post(lambda: self._await_turn(name, chosen, done, self._clock() + _NO_LEADER_S), _TURN_RETRY_S)
            elif self._clock() < no_leader_at:
                self._loop.post(lambda: self._await_turn(name, chosen, done, no_leader_at), _TURN_RETRY_S)
            else:
                log.warning("Restarting connector %s without regard to other workers: %s", name, error)
                self._restart_next(name, list(chosen), done)

        self._take_turn(name, done=False).add_done_callback(lambda future: self._loop.post(lambda: answered(future)))

    def _restart_next(self, name: str, left: list[Instance], done: Future[None]) -> None:
        while left and self._instances.find(left[0]) is None:
            left.pop(0)  # stopped meanwhile
        if not left or self._config.state.target_state(name) is not TargetState.STARTED:
            self._take_turn(name, done=True).add_done_callback(lambda _: done.set_result(None))
            return
        instance = left.pop(0)
        running, before = self._instances.find(instance), self._statuses.last_status(instance)
        kind = "connector" if isinstance(instance, str) else "task"
        log.info("Restarting %s %s with new config provider values", kind, instance)
        if isinstance(instance, str):
            self._reconciler.stop_connector(instance)
        else:
            self._reconciler.stop_tasks([instance])
        deadline = self._clock() + _RESTART_S

        def check() -> None:
            now, status = self._instances.find(instance), self._statuses.last_status(instance)
            has_settled = now is not None and now is not running and status is not before and status is not None
            if not (has_settled and status is not None and status.state in _SETTLED) and self._clock() < deadline:
                self._loop.post(check, _POLL_S)
                return
            had_failed = before is not None and before.state is State.FAILED
            if has_settled and status is not None and status.state is State.FAILED and not had_failed:
                if left:
                    log.error(
                        "The %s %s failed with new config provider values; %d others of connector %s on this worker keep running "
                        "with the old ones", kind, instance, len(left), name,
                    )  # fmt: skip
                left.clear()
            # Extends the turn, so that it does not pass to another worker in between.
            extended = self._take_turn(name, done=False) if left else None
            if extended is None:
                self._restart_next(name, left, done)
            else:
                extended.add_done_callback(lambda _: self._loop.post(lambda: self._restart_next(name, left, done)))

        self._loop.post(check, _POLL_S)


def is_task_affected(before: StartedWith, own: Mapping[str, str], connector: Mapping[str, str]) -> bool:
    """Returns whether a task uses values that changed: in its own configuration, or in what the runtime reads from its
    connector's.

    A value that only the connector itself uses, for example to find tables, does not restart its tasks.
    """
    if before.own != own:
        return True
    changed = {key for key in {*before.connector, *connector} if before.connector.get(key) != connector.get(key)}
    return any(key.startswith(_OF_THE_RUNTIME) for key in changed)
