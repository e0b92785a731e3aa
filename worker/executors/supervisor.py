"""The thread that starts executor processes, looks after them, and waits for their ends."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from worker.executors.process_handle import Ending, ProcessHandle

log = logging.getLogger(__name__)

_LONGEST_LOOK_S = 5.0
_SHORTEST_LOOK_S = 0.05
_LIMIT_LOOK_S = 0.5
"""How often the memory of a process that has a limit is looked at."""


class Supervisor:
    """Parent of all processes: the kernel ends them with its thread. Whoever makes it starts and closes it."""

    def __init__(self, on_ended: Callable[[ProcessHandle, Ending], None], hang_timeout_s: float, sign_of_life_s: float) -> None:
        """``on_ended`` is called on the supervisor's thread. Each process is given a sign of life at least that often."""
        self._on_ended = on_ended
        self._look_s = max(_SHORTEST_LOOK_S, min(_LONGEST_LOOK_S, hang_timeout_s / 3, sign_of_life_s))
        self._woken = threading.Event()
        self._lock = threading.Lock()
        self._new: list[ProcessHandle] = []
        self._handles: list[ProcessHandle] = []
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="executors", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, handle: ProcessHandle) -> None:
        """Has a process started."""
        with self._lock:
            self._new.append(handle)
        self._woken.set()

    def wake(self) -> None:
        """Something has happened to a process."""
        self._woken.set()

    def close(self, deadline: float) -> None:
        """Waits for all processes to end, kills those that live on at ``deadline`` (of ``time.monotonic()``), and ends."""
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
                self._look_after(handle, now)
            if closing and not self._handles:
                return
            self._wait(closing)

    def _look_after(self, handle: ProcessHandle, now: float) -> None:
        handle.look(now)
        ending = handle.reap(now)
        if ending is None:
            return
        with self._lock:
            self._handles.remove(handle)
        try:
            self._on_ended(handle, ending)
        except Exception:
            log.exception("What the end of executor %s leads to failed", handle.key)

    def _wait(self, closing: bool) -> None:
        # A socket closes moments before the process that had it can be waited for.
        ending = closing or any(handle.is_closed for handle in self._handles)
        limited = any(handle.housing.memory_limit_bytes is not None for handle in self._handles)
        self._woken.wait(_SHORTEST_LOOK_S if ending else min(self._look_s, _LIMIT_LOOK_S) if limited else self._look_s)
        self._woken.clear()
