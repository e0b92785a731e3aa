"""The executor processes of a worker, by key; a process is started when it is first needed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Set
from concurrent.futures import wait
from pathlib import Path
from typing import Any

from connect.worker_lifetime import WorkerLifetime
from worker.config.isolation import Isolation
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.executor import ExecutorListener, WorkerServices
from worker.executors.deadlines import Deadlines
from worker.executors.executor_requests import ExecutorRequests
from worker.executors.futures import all_done
from worker.executors.hang_reports import HangReports
from worker.executors.placement import ProcessKind, place_for_instance, place_for_task
from worker.executors.process_handle import ProcessExit, ProcessHandle, ProcessSpec
from worker.executors.supervisor import Supervisor
from worker.executors.work_registry import WorkRegistry

log = logging.getLogger(__name__)

_EMPTY_TIMEOUT_S = 10.0
"""How long an empty process that is not shared is kept: a restart finds it again."""
_HANG_REPORT_S = 10.0
"""How long a process may not answer until what runs in it is reported as stalled."""
_NO_SILENCE_TIMEOUT_S = 3600.0
_SHARED_PROCESSES_TIMEOUT_S = 15.0
"""How long a shutdown waits for the processes that executors have started for the whole worker."""


class ProcessRegistry:
    """Safe from any thread; uses the work registry's lock."""

    def __init__(
        self,
        config: WorkerConfig,
        registry: WorkRegistry,
        listener: ExecutorListener,
        services: WorkerServices,
        mask: SecretMask,
        on_exit: Callable[[ProcessHandle, ProcessExit], None],
    ) -> None:
        self._config = config
        self._registry = registry
        self._listener = listener
        self._services = services
        self._mask = mask
        self._hang_timeout_s = config.task_executor_hang_timeout_ms / 1000
        self._silence_timeout_s = _silence_timeout_s(config)
        # Three pings within the time after which a process ends itself: one may be late.
        ping_interval_s = _NO_SILENCE_TIMEOUT_S if self._silence_timeout_s is None else self._silence_timeout_s / 3
        hangs = HangReports(registry, listener, min(_HANG_REPORT_S, self._hang_timeout_s / 2))
        self._supervisor = Supervisor(on_exit, self._hang_timeout_s, ping_interval_s, hangs.check)
        self._deadlines = Deadlines("executor-empty")
        self._lifetime = WorkerLifetime()
        self._handles: dict[str, ProcessHandle] = {}
        self._started_keys: set[str] = set()
        self._levels: dict[str, str] = {}
        self._secrets: set[str] = set()

    def start(self) -> ProcessHandle:
        """Starts the first process, which also checks the worker's converters."""
        with self._registry.lock:
            self._secrets |= self._mask.on_learned(self._send_secrets)
        self._supervisor.start()
        return self.first

    @property
    def first(self) -> ProcessHandle:
        """The shared process that runs from the start."""
        return self._get(ProcessSpec("shared-1"), check_converters=True)

    # --- which process

    def shared_for_task(self, connector: str) -> ProcessHandle:
        with self._registry.lock:
            keys = self._shared_keys()
            return self._shared(keys[place_for_task([self._registry.load_of(self._handles.get(k), connector) for k in keys])])

    def shared_for_instance(self, connector: str) -> ProcessHandle:
        with self._registry.lock:
            keys = self._shared_keys()
            return self._shared(keys[place_for_instance([self._registry.load_of(self._handles.get(k), connector) for k in keys])])

    def dedicated(self, connector: str, isolation: Isolation) -> ProcessHandle:
        """The process of a connector with ``task.isolation=dedicated``."""
        key = f"dedicated-{connector}"
        return self._get(ProcessSpec(key, isolation.environment, isolation.memory_limit_bytes, ProcessKind.DEDICATED))

    def quarantine(self, key: str) -> ProcessHandle:
        """The process of a group of quarantined connectors."""
        return self._get(ProcessSpec(key, kind=ProcessKind.QUARANTINE))

    def for_query(self, environment: Path | None) -> ProcessHandle:
        """A process that can load the plugins of an environment, or those of the worker."""
        if environment is None:
            return self.first
        with self._registry.lock:
            for handle in self._handles.values():
                if handle.spec.environment == environment and not handle.is_ending:
                    return handle
            handle = self._get(ProcessSpec(f"queries-{environment.name}", environment, kind=ProcessKind.DEDICATED))
        self.dismiss_if_empty(handle)
        return handle

    def _shared_keys(self) -> list[str]:
        return [f"shared-{number}" for number in range(1, self._config.task_executors + 1)]

    def _shared(self, key: str) -> ProcessHandle:
        return self.first if key == "shared-1" else self._get(ProcessSpec(key))

    def _get(self, spec: ProcessSpec, *, check_converters: bool = False) -> ProcessHandle:
        with self._registry.lock:
            handle = self._handles.get(spec.key)
            if handle is None or handle.is_ending:
                handle = self._handles[spec.key] = ProcessHandle(
                    spec,
                    self._handler,
                    self._start_arguments(check_converters=check_converters),
                    self._hang_timeout_s,
                    # A crash test ends a process once, not the one that replaces it too.
                    with_crash_points=spec.key not in self._started_keys,
                    lifetime=self._lifetime,
                )
                self._started_keys.add(spec.key)
                self._supervisor.add(handle)
            return handle

    def _handler(self, handle: ProcessHandle) -> ExecutorRequests:
        return ExecutorRequests(handle, self._registry, self._listener, self._services, self._mask, self._supervisor.wake)

    def _start_arguments(self, *, check_converters: bool) -> dict[str, Any]:
        # They have the values of config providers already; the providers run in the control process only.
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
            "silence_timeout_s": self._silence_timeout_s,
        }

    # --- all of them

    def set_log_level(self, namespace: str, level: str) -> None:
        with self._registry.lock:
            self._levels.pop(namespace, None)  # keeps the order in which levels were set
            self._levels[namespace] = level
            handles = list(self._handles.values())
        for handle in handles:
            handle.notify("set_log_level", namespace=namespace, level=level)

    def _send_secrets(self, values: Set[str]) -> None:
        with self._registry.lock:
            self._secrets |= values
            handles = list(self._handles.values())
        for handle in handles:
            handle.notify("secrets", values=sorted(values))

    def all(self) -> list[ProcessHandle]:
        """Returns the processes that run or start."""
        with self._registry.lock:
            return [handle for handle in self._handles.values() if not handle.is_ending]

    def remove(self, handle: ProcessHandle) -> None:
        """Removes a process that has exited: the next request for its key starts another."""
        with self._registry.lock:
            if self._handles.get(handle.key) is handle:
                del self._handles[handle.key]

    def dismiss_if_empty(self, handle: ProcessHandle) -> None:
        """Ends a process that is not shared once it has been empty for a while."""
        if handle.key.startswith("shared-"):
            return
        self._deadlines.call_at(time.monotonic() + _EMPTY_TIMEOUT_S, lambda: self._dismiss_now_if_empty(handle))

    def _dismiss_now_if_empty(self, handle: ProcessHandle) -> None:
        with self._registry.lock:
            if self._handles.get(handle.key) is not handle or self._registry.in_process(handle):
                return
            if not handle.has_open_calls:
                del self._handles[handle.key]
                handle.dismiss()
                return
        self.dismiss_if_empty(handle)

    def close(self, timeout_s: float) -> None:
        """Stops everything that runs in the processes, and ends them, within the timeout."""
        deadline = time.monotonic() + timeout_s
        with self._registry.lock:
            handles = list(self._handles.values())
            self._handles.clear()
        stopped = all_done([handle.call("close", timeout_s=max(0.1, timeout_s - 0.5)) for handle in handles])
        wait([stopped], max(0.1, timeout_s - 0.2))  # those that do not answer are killed below
        for handle in handles:
            handle.dismiss()
        self._supervisor.close(deadline)
        if not self._lifetime.end(_SHARED_PROCESSES_TIMEOUT_S):
            log.warning("Processes that connectors share did not end within %g s", _SHARED_PROCESSES_TIMEOUT_S)


def _silence_timeout_s(config: WorkerConfig) -> float | None:
    """How long an executor may hear nothing from the control process before it ends itself.

    That is before the cluster, which hears nothing either, assigns the worker's tasks to others (promise 4). Tasks of a
    standalone worker cannot go elsewhere, so its executors wait for ever.
    """
    if config.distributed is None:
        return None
    settings = config.originals
    session_s = float(settings.get("session.timeout.ms", "10000")) / 1000
    heartbeat_s = float(settings.get("heartbeat.interval.ms", "3000")) / 1000
    return max(1.0, session_s - heartbeat_s)
