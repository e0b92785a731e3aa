"""Automatic restarts of failed connectors and tasks: ``errors.restart.*``, an extension of Apache's workers.

Off by default. When it is on, an instance that fails is restarted after a delay that doubles with each failure, until it has
failed too often in a row; after a long run without a failure, counting starts over. Counts are local to this worker: they are
lost when the worker restarts, and start at zero when a task moves to another worker.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from connect.config.definition import ConfigDef
from connect.errors import ConnectError
from worker.config.extension_keys import RESTART_KEYS
from worker.config.worker_config import WorkerConfig
from worker.model import ConnectorStatus, Restarts, State, Status

log = logging.getLogger(__name__)

_KEYS = ConfigDef(RESTART_KEYS)
_JITTER = 0.2
_CONFIG_ERROR = "org.apache.kafka.common.config.ConfigException"

InstanceKey = tuple[str, int | None]
"""A connector's name, and the number of a task or None for the connector itself."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """The keys of one connector, typed."""

    max_attempts: int = 0
    """0: never, as in Apache's workers; -1: unlimited."""
    initial_ms: int = 1000
    max_ms: int = 60_000
    reset_after_ms: int = 600_000

    @classmethod
    def of(cls, config: Mapping[str, str | None], worker: WorkerConfig) -> RestartPolicy:
        """Parses the connector's keys (with config provider values); the worker's keys of the same names are the defaults. Raises
        ConfigError."""
        given = {key.name: config.get(key.name) or worker.originals.get(key.name) for key in RESTART_KEYS}
        values = _KEYS.parse({name: value for name, value in given.items() if value is not None})
        return cls(*(values[key.name] for key in RESTART_KEYS))

    @property
    def is_on(self) -> bool:
        return self.max_attempts != 0

    def delay_ms(self, count: int, spread: float) -> int:
        """Returns the delay after ``count`` restarts. ``spread``, from 0 to 1, shortens it, so that instances that failed at the
        same time restart at different times."""
        delay = min(self.max_ms, self.initial_ms << min(count, 40))
        return int(delay * (1 - _JITTER * spread))


@dataclass(frozen=True, slots=True)
class RestartState:
    """The restarts of one instance. Pure: times are arguments, in seconds of any clock."""

    policy: RestartPolicy
    count: int = 0
    due_s: float | None = None
    """When it will be restarted; None if it will not."""
    running_since_s: float | None = None
    has_given_up: bool = False
    """Whether no restart followed its last failure."""

    def failed(self, policy: RestartPolicy, now_s: float, spread: float) -> RestartState:
        """Returns the state after a failure: a restart is due, unless there were too many. A failure while one is pending changes
        nothing."""
        if self.due_s is not None:
            return replace(self, policy=policy)
        count = self.count_at(now_s)
        due_s = None
        if policy.max_attempts < 0 or count < policy.max_attempts:
            due_s = now_s + policy.delay_ms(count, spread) / 1000
        return RestartState(policy, count, due_s, has_given_up=due_s is None)

    def running(self, now_s: float) -> RestartState:
        """Returns the state of an instance that runs, whoever started it."""
        since_s = now_s if self.running_since_s is None else self.running_since_s
        return replace(self, due_s=None, running_since_s=since_s, has_given_up=False)

    def restarted(self) -> RestartState:
        """Returns the state of an instance that is being restarted."""
        return replace(self, count=self.count + 1, due_s=None, running_since_s=None, has_given_up=False)

    def count_at(self, now_s: float) -> int:
        """Returns the restarts that count: none after it ran long enough."""
        since_s = self.running_since_s
        ran_long_enough = since_s is not None and (now_s - since_s) * 1000 >= self.policy.reset_after_ms
        return 0 if ran_long_enough else self.count


class RestartScheduler:
    """One thread for all instances of a worker. The creator starts and closes it; any thread may call the other methods.

    ``restart`` is called on the scheduler's thread with an instance that is to be restarted. It must not block, and must check
    whether the restart is still needed: the instance may have been paused, stopped, deleted, or restarted meanwhile.
    """

    def __init__(
        self,
        restart: Callable[[str, int | None], None],
        clock: Callable[[], float] = time.monotonic,
        *,
        epoch_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        spread: Callable[[], float] = random.random,
    ) -> None:
        self._restart = restart
        self._clock = clock
        self._epoch_ms = epoch_ms
        self._spread = spread
        self._changed = threading.Condition()
        self._states: dict[InstanceKey, RestartState] = {}
        self._thread = threading.Thread(target=self._work, name="auto-restart", daemon=True)
        self._closed = False

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def failed(self, connector: str, task: int | None, policy: RestartPolicy, trace: str | None = None) -> None:
        """Schedules the restart of an instance that is FAILED, as the policy says. ``trace`` is only logged."""
        if not policy.is_on:
            self._drop((connector, task))
            return
        now_s = self._clock()
        with self._changed:
            if self._closed:
                return
            old = self._states.get((connector, task), RestartState(policy))
            state = self._states[connector, task] = old.failed(policy, now_s, self._spread())
            self._changed.notify()
        if old.due_s is None:
            _log_failure(connector, task, state, now_s, trace)

    def running(self, connector: str, task: int | None) -> None:
        """Cancels the pending restart of an instance that is RUNNING."""
        with self._changed:
            state = self._states.get((connector, task))
            if state is not None:
                self._states[connector, task] = state.running(self._clock())

    def reset(self, connector: str) -> None:
        """Drops the restarts of a connector and its tasks, because it was paused, stopped, deleted, changed, or restarted on
        request."""
        with self._changed:
            for instance in [one for one in self._states if one[0] == connector]:
                del self._states[instance]

    def state(self, connector: str, task: int | None) -> Restarts | None:
        """Returns the restarts of an instance; None if it has not failed yet, or its restarts are off."""
        now_s = self._clock()
        with self._changed:
            state = self._states.get((connector, task))
        if state is None:
            return None
        next_ms = None if state.due_s is None else self._epoch_ms() + int((state.due_s - now_s) * 1000)
        return Restarts(state.count_at(now_s), next_ms)

    def has_given_up(self, connector: str, task: int | None) -> bool:
        """Whether an instance that is FAILED stays so: no restart is due, and none is under way."""
        with self._changed:
            state = self._states.get((connector, task))
        return state is None or state.has_given_up

    def run_due(self) -> float | None:
        """Restarts the instances that are due. Returns the seconds until the next restart, None without one."""
        now_s = self._clock()
        with self._changed:
            due = [one for one, state in self._states.items() if state.due_s is not None and state.due_s <= now_s]
            for one in due:
                self._states[one] = self._states[one].restarted()
        for connector, task in due:
            try:
                self._restart(connector, task)
            except Exception as e:
                log.warning("%s could not be restarted: %s", _label(connector, task), e)
        with self._changed:
            return self._next_s()

    def close(self) -> None:
        """Ends the thread."""
        with self._changed:
            self._closed = True
            self._states.clear()
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def _drop(self, instance: InstanceKey) -> None:
        with self._changed:
            self._states.pop(instance, None)

    def _work(self) -> None:
        while True:
            self.run_due()
            with self._changed:
                if self._closed:
                    return
                # Computed again, because something may have failed since.
                self._changed.wait(self._next_s())

    def _next_s(self) -> float | None:
        due = [state.due_s for state in self._states.values() if state.due_s is not None]
        return max(0.0, min(due) - self._clock()) if due else None


class AutoRestart:
    """Restarts the failed instances of a worker as their connectors' policies say. The creator starts and closes it; any thread
    may call the other methods."""

    def __init__(self, worker: WorkerConfig, restart: Callable[[str, int | None], None]) -> None:
        """``restart`` as for :class:`RestartScheduler`."""
        self._worker = worker
        self._scheduler = RestartScheduler(restart)

    def start(self) -> None:
        self._scheduler.start()

    def close(self) -> None:
        self._scheduler.close()

    def on_state(
        self, connector: str, task: int | None, state: State, trace: str | None, config: Mapping[str, str | None]
    ) -> Restarts | None:
        """Follows the state of an instance; ``config`` is its connector's. Returns the restarts that its status shows."""
        policy = self._policy(config)
        if state is State.FAILED:
            self._scheduler.failed(connector, task, policy, trace)
        elif state is State.RUNNING:
            self._scheduler.running(connector, task)
        return self._restarts(connector, task, policy)

    def has_given_up(self, connector: str, task: int | None) -> bool:
        """See :meth:`RestartScheduler.has_given_up`."""
        return self._scheduler.has_given_up(connector, task)

    def reset(self, connector: str) -> None:
        """See :meth:`RestartScheduler.reset`."""
        self._scheduler.reset(connector)

    def with_restarts(self, status: ConnectorStatus, config: Mapping[str, str | None]) -> ConnectorStatus:
        """Adds the restarts of its instances to a status, if the connector restarts automatically."""
        policy = self._policy(config)

        def add(task: int | None, one: Status) -> Status:
            return replace(one, restarts=self._restarts(status.name, task, policy))

        if not policy.is_on:
            return status
        tasks = [(number, add(number, task)) for number, task in status.tasks]
        return replace(status, connector=add(None, status.connector), tasks=tasks)

    def _restarts(self, connector: str, task: int | None, policy: RestartPolicy) -> Restarts | None:
        return (self._scheduler.state(connector, task) or Restarts(0, None)) if policy.is_on else None

    def _policy(self, config: Mapping[str, str | None]) -> RestartPolicy:
        try:
            return RestartPolicy.of(config, self._worker)
        except ConnectError as e:
            # A config provider's value that is invalid by now; it was valid when the connector was configured.
            log.debug("errors.restart.*: %s", e.message)
            return RestartPolicy()


def _label(connector: str, task: int | None) -> str:
    return f"Connector {connector}" if task is None else f"Task {connector}-{task}"


def _log_failure(connector: str, task: int | None, state: RestartState, now_s: float, trace: str | None) -> None:
    label, policy = _label(connector, task), state.policy
    if state.due_s is None:
        log.error("%s failed and stays FAILED: it was restarted %d times (errors.restart.max.attempts)", label, state.count)
        return
    limit = "" if policy.max_attempts < 0 else f" of {policy.max_attempts}"
    hint = "; its configuration is invalid, so a restart will hardly help" if (trace or "").startswith(_CONFIG_ERROR) else ""
    log.warning("%s failed; restart %d%s in %.1f s%s", label, state.count + 1, limit, state.due_s - now_s, hint)
