"""The thread that starts executor processes, checks that they respond, and waits for their exits."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from worker.executors.process_handle import ProcessExit, ProcessHandle

log = logging.getLogger(__name__)

_MAX_INTERVAL_S = 5.0
_MIN_INTERVAL_S = 0.05
_MEMORY_INTERVAL_S = 0.5
"""How often the memory of a process that has a limit is checked."""


class Supervisor:
    """Parent of all processes: the kernel ends them when its thread ends. Its owner starts and closes it."""

    def __init__(
        self,
        on_exit: Callable[[ProcessHandle, ProcessExit], None],
        hang_timeout_s: float,
        ping_interval_s: float,
        on_check: Callable[[ProcessHandle, float], None] = lambda handle, now: None,
    ) -> None:
        """``on_exit`` is called on the supervisor's thread, and ``on_check`` after each check of a process that runs, with
        ``time.monotonic()``. Each process is pinged at least every ``ping_interval_s``."""
        self._on_exit = on_exit
        self._on_check = on_check
        self._interval_s = max(_MIN_INTERVAL_S, min(_MAX_INTERVAL_S, hang_timeout_s / 3, ping_interval_s))
        self._woken = threading.Event()
        self._lock = threading.Lock()
        self._new: list[ProcessHandle] = []
        self._handles: list[ProcessHandle] = []
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="executors", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, handle: ProcessHandle) -> None:
        """Starts a process soon."""
        with self._lock:
            self._new.append(handle)
        self._woken.set()

    def wake(self) -> None:
        """Checks the processes now."""
        self._woken.set()

    def close(self, deadline: float) -> None:
        """Waits for all processes to end, kills those still running at ``deadline`` (of ``time.monotonic()``), and ends."""
        with self._lock:
            self._closing = True
        self._woken.set()
        if self._thread.ident is None:
            return
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            with self._lock:
                handles = list(self._handles)
            for handle in handles:
                handle.kill("did not end with its worker")
            self._woken.set()
            self._thread.join(5.0)

    def _work(self) -> None:
        while True:
            with self._lock:
                new, self._new = self._new, []
                closing = self._closing
            if not closing:
                for handle in new:
                    handle.spawn()
                    with self._lock:
                        self._handles.append(handle)
            now = time.monotonic()
            for handle in list(self._handles):
                self._check(handle, now)
            if closing and not self._handles:
                return
            self._wait(closing)

    def _check(self, handle: ProcessHandle, now: float) -> None:
        handle.check(now)
        exit_ = handle.reap(now)
        if exit_ is None:
            try:
                self._on_check(handle, now)
            except Exception:
                log.exception("Handling the check of executor %s failed", handle.key)
            return
        with self._lock:
            self._handles.remove(handle)
        try:
            self._on_exit(handle, exit_)
        except Exception:
            log.exception("Handling the exit of executor %s failed", handle.key)

    def _wait(self, closing: bool) -> None:
        # A socket closes moments before its process can be waited for.
        ending = closing or any(handle.is_closed for handle in self._handles)
        limited = any(handle.spec.memory_limit_bytes is not None for handle in self._handles)
        self._woken.wait(
            _MIN_INTERVAL_S if ending else min(self._interval_s, _MEMORY_INTERVAL_S) if limited else self._interval_s
        )
        self._woken.clear()
