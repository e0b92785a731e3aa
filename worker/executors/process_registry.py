"""The executor processes of a worker by their keys: which there are, and those that have to be made."""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from concurrent.futures import wait
from pathlib import Path
from typing import Any

from worker.config.isolation import Isolation
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.executor import ExecutorListener, WorkerServices
from worker.executors.deadlines import Deadlines
from worker.executors.executor_requests import ControlSide
from worker.executors.futures import all_done
from worker.executors.placement import HouseKind, place_for_instance, place_for_task
from worker.executors.process_handle import Ending, Housing, ProcessHandle
from worker.executors.supervisor import Supervisor
from worker.executors.work_registry import Register

_EMPTY_S = 10.0
"""How long a process that is not shared is kept when nothing is in it: a restart finds it again."""
_NO_LEASH_S = 3600.0


class Processes:
    """Makes processes when they are asked for. Safe from any thread; uses the register's lock."""

    def __init__(
        self,
        config: WorkerConfig,
        register: Register,
        listener: ExecutorListener,
        services: WorkerServices,
        mask: SecretMask,
        on_ended: Callable[[ProcessHandle, Ending], None],
    ) -> None:
        self._config = config
        self._register = register
        self._listener = listener
        self._services = services
        self._mask = mask
        self._hang_timeout_s = config.task_executor_hang_timeout_ms / 1000
        self._leash_s = _leash_s(config)
        # Three signs of life in the time after which a process ends itself: one may come late.
        sign_of_life_s = _NO_LEASH_S if self._leash_s is None else self._leash_s / 3
        self._supervisor = Supervisor(on_ended, self._hang_timeout_s, sign_of_life_s)
        self._deadlines = Deadlines("executor-empty")
        self._handles: dict[str, ProcessHandle] = {}
        self._made: set[str] = set()
        self._levels: dict[str, str] = {}
        self._secrets: set[str] = set()

    def start(self) -> ProcessHandle:
        """Begins, with the first process, which looks at the worker's settings too."""
        with self._register.lock:
            self._secrets |= self._mask.on_learned(self._tell_secrets)
        self._supervisor.start()
        return self.first

    @property
    def first(self) -> ProcessHandle:
        """The shared process that is there from the start."""
        return self._get(Housing("shared-1"), check_converters=True)

    # --- which process

    def shared_for_task(self, connector: str) -> ProcessHandle:
        with self._register.lock:
            keys = self._shared_keys()
            return self._shared(keys[place_for_task([self._register.load_of(self._handles.get(k), connector) for k in keys])])

    def shared_for_instance(self, connector: str) -> ProcessHandle:
        with self._register.lock:
            keys = self._shared_keys()
            return self._shared(keys[place_for_instance([self._register.load_of(self._handles.get(k), connector) for k in keys])])

    def own(self, connector: str, isolation: Isolation) -> ProcessHandle:
        """The process of a connector that asked for one."""
        key = f"dedicated-{connector}"
        return self._get(Housing(key, isolation.environment, isolation.memory_limit_bytes, HouseKind.OWN))

    def together(self, name: str) -> ProcessHandle:
        """The one of all connectors that share something of this name."""
        return self._get(Housing(f"together-{name}"))

    def apart(self, key: str) -> ProcessHandle:
        """The one of some connectors under which processes have ended."""
        return self._get(Housing(key, kind=HouseKind.SUSPECTS))

    def for_question(self, environment: Path | None) -> ProcessHandle:
        """One that can load classes: of an environment, if they are to be found there."""
        if environment is None:
            return self.first
        with self._register.lock:
            for handle in self._handles.values():
                if handle.housing.environment == environment and not handle.is_ending:
                    return handle
            handle = self._get(Housing(f"questions-{environment.name}", environment, kind=HouseKind.OWN))
        self.leave_if_empty(handle)
        return handle

    def _shared_keys(self) -> list[str]:
        return [f"shared-{number}" for number in range(1, self._config.task_executors + 1)]

    def _shared(self, key: str) -> ProcessHandle:
        return self.first if key == "shared-1" else self._get(Housing(key))

    def _get(self, housing: Housing, *, check_converters: bool = False) -> ProcessHandle:
        with self._register.lock:
            handle = self._handles.get(housing.key)
            if handle is None or handle.is_ending:
                handle = self._handles[housing.key] = ProcessHandle(
                    housing,
                    self._handler,
                    self._begin(check_converters=check_converters),
                    self._hang_timeout_s,
                    # A crash test ends a process once, not the one that replaces it too.
                    with_crash_points=housing.key not in self._made,
                )
                self._made.add(housing.key)
                self._supervisor.add(handle)
            return handle

    def _handler(self, handle: ProcessHandle) -> ControlSide:
        return ControlSide(handle, self._register, self._listener, self._services, self._mask, self._supervisor.wake)

    def _begin(self, *, check_converters: bool) -> dict[str, Any]:
        # Values of config providers are in it already: their providers are the control process's.
        props = {
            key: value
            for key, value in self._config.originals.items()
            if key != "config.providers" and not key.startswith("config.providers.")
        }
        return {
            "props": props,
            "distributed": self._config.distributed is not None,
            "secrets": sorted(self._secrets),
            "levels": [list(pair) for pair in self._levels.items()],
            "check_converters": check_converters,
            "leash_s": self._leash_s,
        }

    # --- all of them

    def set_log_level(self, namespace: str, level: str) -> None:
        with self._register.lock:
            self._levels.pop(namespace, None)  # what was set last counts
            self._levels[namespace] = level
            handles = list(self._handles.values())
        for handle in handles:
            handle.tell("set_log_level", namespace=namespace, level=level)

    def _tell_secrets(self, values: Set[str]) -> None:
        with self._register.lock:
            self._secrets |= values
            handles = list(self._handles.values())
        for handle in handles:
            handle.tell("secrets", values=sorted(values))

    def gone(self, handle: ProcessHandle) -> None:
        """It has ended: the next one who asks for its key gets another."""
        with self._register.lock:
            if self._handles.get(handle.key) is handle:
                del self._handles[handle.key]

    def leave_if_empty(self, handle: ProcessHandle) -> None:
        """A process that is not shared by all is ended when nothing has been in it for a while."""
        if handle.key.startswith("shared-"):
            return
        self._deadlines.call_at(time.monotonic() + _EMPTY_S, lambda: self._end_if_empty(handle))

    def _end_if_empty(self, handle: ProcessHandle) -> None:
        with self._register.lock:
            if self._handles.get(handle.key) is not handle or self._register.of_home(handle):
                return
            if not handle.is_asked:
                del self._handles[handle.key]
                handle.dismiss()
                return
        self.leave_if_empty(handle)

    def close(self, timeout_s: float) -> None:
        """Has every process stop what runs in it, and ends them all within the time."""
        deadline = time.monotonic() + timeout_s
        with self._register.lock:
            handles = list(self._handles.values())
            self._handles.clear()
        stopped = all_done([handle.ask("close", timeout_s=max(0.1, timeout_s - 0.5)) for handle in handles])
        wait([stopped], max(0.1, timeout_s - 0.2))  # those that do not answer are killed
        for handle in handles:
            handle.dismiss()
        self._supervisor.close(deadline)


def _leash_s(config: WorkerConfig) -> float | None:
    """After how long without a word from the control process an executor ends itself: before the worker's cluster, which hears
    nothing either, gives its tasks to others (promise 4). A standalone worker has nobody to give them to."""
    if config.distributed is None:
        return None
    settings = config.originals
    session_s = float(settings.get("session.timeout.ms", "10000")) / 1000
    heartbeat_s = float(settings.get("heartbeat.interval.ms", "3000")) / 1000
    return max(1.0, session_s - heartbeat_s)
