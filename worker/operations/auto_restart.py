"""Failed connectors and tasks that restart by themselves: ``errors.restart.*``, which Apache's workers do not have.

Off by default. When it is on, an instance that fails is restarted after a delay that doubles with each failure, until it has
failed too often in a row; one that ran well for long begins anew. Counts are this worker's own: they are not kept over a restart
of the worker, and a task that moves to another worker begins there with none.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from connect.config.definition import ConfigDef
from worker.config.extension_keys import RESTART_KEYS
from worker.config.worker_config import WorkerConfig
from worker.model import Restarts

log = logging.getLogger(__name__)

_KEYS = ConfigDef(RESTART_KEYS)
_JITTER = 0.2
_CONFIG_ERROR = "org.apache.kafka.common.config.ConfigException"

Instance = tuple[str, int | None]
"""A connector's name, and the number of a task or None for the connector itself."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """The keys of one connector, typed."""

    max_attempts: int = 0
    """0: never, as Apache's workers; -1: without end."""
    initial_ms: int = 1000
    max_ms: int = 60_000
    reset_after_ms: int = 600_000

    @classmethod
    def of(cls, config: Mapping[str, str | None], worker: WorkerConfig) -> RestartPolicy:
        """The connector's keys (with the values of config providers), or else the worker's of those names. Raises ConfigError."""
        given = {key.name: config.get(key.name) or worker.originals.get(key.name) for key in RESTART_KEYS}
        values = _KEYS.parse({name: value for name, value in given.items() if value is not None})
        return cls(*(values[key.name] for key in RESTART_KEYS))

    @property
    def is_on(self) -> bool:
        return self.max_attempts != 0

    def delay_ms(self, count: int, spread: float) -> int:
        """How long to wait after ``count`` restarts; ``spread``, from 0 to 1, keeps many that failed together apart."""
        delay = min(self.max_ms, self.initial_ms << min(count, 40))
        return int(delay * (1 - _JITTER * spread))


@dataclass(frozen=True, slots=True)
class RestartState:
    """What is known of one instance. Pure: times, in seconds of any clock, come from outside."""

    policy: RestartPolicy
    count: int = 0
    due_s: float | None = None
    """When it will be restarted."""
    running_since_s: float | None = None

    def failed(self, policy: RestartPolicy, now_s: float, spread: float) -> RestartState:
        """It failed: the restart that follows, unless there were too many. A failure while one is awaited changes nothing."""
        if self.due_s is not None:
            return replace(self, policy=policy)
        count = self.count_at(now_s)
        due_s = None
        if policy.max_attempts < 0 or count < policy.max_attempts:
            due_s = now_s + policy.delay_ms(count, spread) / 1000
        return RestartState(policy, count, due_s)

    def running(self, now_s: float) -> RestartState:
        """It runs, whoever started it."""
        since_s = now_s if self.running_since_s is None else self.running_since_s
        return replace(self, due_s=None, running_since_s=since_s)

    def restarted(self) -> RestartState:
        """It is being restarted now."""
        return replace(self, count=self.count + 1, due_s=None, running_since_s=None)

    def count_at(self, now_s: float) -> int:
        """The restarts that count: none after it ran well for long enough."""
        since_s = self.running_since_s
        well = since_s is not None and (now_s - since_s) * 1000 >= self.policy.reset_after_ms
        return 0 if well else self.count


class Healer:
    """One thread for all instances of a worker. Whoever makes it starts and closes it; the other methods are for any thread.

    ``restart`` is called on the healer's thread with an instance that is to be restarted. It must not block, and must look
    whether that is still wanted: the instance may have been paused, stopped, deleted or restarted by somebody since.
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
        self._states: dict[Instance, RestartState] = {}
        self._thread = threading.Thread(target=self._work, name="self-healing", daemon=True)
        self._closed = False

    def start(self) -> None:
        """Begins to look at the clock."""
        self._thread.start()

    def failed(self, connector: str, task: int | None, policy: RestartPolicy, trace: str | None = None) -> None:
        """An instance is FAILED: it will be restarted as the policy says. ``trace`` is only for what the log tells."""
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
            _tell(connector, task, state, now_s, trace)

    def running(self, connector: str, task: int | None) -> None:
        """An instance is RUNNING: a restart that was awaited is not needed any more."""
        with self._changed:
            state = self._states.get((connector, task))
            if state is not None:
                self._states[connector, task] = state.running(self._clock())

    def forget(self, connector: str) -> None:
        """Forgets a connector and its tasks: it was paused, stopped, deleted, given another configuration, restarted by hand."""
        with self._changed:
            for instance in [one for one in self._states if one[0] == connector]:
                del self._states[instance]

    def state(self, connector: str, task: int | None) -> Restarts | None:
        """What statuses show: None for an instance that has not failed yet, or whose connector is not to heal."""
        now_s = self._clock()
        with self._changed:
            state = self._states.get((connector, task))
        if state is None:
            return None
        next_ms = None if state.due_s is None else self._epoch_ms() + int((state.due_s - now_s) * 1000)
        return Restarts(state.count_at(now_s), next_ms)

    def shown(self, connector: str, task: int | None, policy: RestartPolicy) -> Restarts | None:
        """The same, and no restarts for an instance that has not failed yet under a policy that is on."""
        return (self.state(connector, task) or Restarts(0, None)) if policy.is_on else None

    def run_due(self) -> float | None:
        """Restarts what is due. Returns the seconds until the next one, None when there is none."""
        now_s = self._clock()
        with self._changed:
            due = [one for one, state in self._states.items() if state.due_s is not None and state.due_s <= now_s]
            for one in due:
                self._states[one] = self._states[one].restarted()
        for connector, task in due:
            try:
                self._restart(connector, task)
            except Exception as e:
                log.warning("%s could not be restarted: %s", _named(connector, task), e)
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

    def _drop(self, instance: Instance) -> None:
        with self._changed:
            self._states.pop(instance, None)

    def _work(self) -> None:
        while True:
            self.run_due()
            with self._changed:
                if self._closed:
                    return
                # Looked up again: something may have failed since.
                self._changed.wait(self._next_s())

    def _next_s(self) -> float | None:
        due = [state.due_s for state in self._states.values() if state.due_s is not None]
        return max(0.0, min(due) - self._clock()) if due else None


def _named(connector: str, task: int | None) -> str:
    return f"Connector {connector}" if task is None else f"Task {connector}-{task}"


def _tell(connector: str, task: int | None, state: RestartState, now_s: float, trace: str | None) -> None:
    named, policy = _named(connector, task), state.policy
    if state.due_s is None:
        log.error("%s failed and stays FAILED: it was restarted %d times (errors.restart.max.attempts)", named, state.count)
        return
    limit = "" if policy.max_attempts < 0 else f" of {policy.max_attempts}"
    hint = "; its configuration is to blame, so that it will hardly help" if (trace or "").startswith(_CONFIG_ERROR) else ""
    log.warning("%s failed; restart %d%s in %.1f s%s", named, state.count + 1, limit, state.due_s - now_s, hint)
