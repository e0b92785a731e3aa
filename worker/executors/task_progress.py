"""Reads the progress of many tasks, without waiting for code that hangs."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence

from worker.executors.task_slot import TaskSlot
from worker.model import TaskId, TaskProgress

_PATIENCE_S = 0.2
"""How long one task may take before the others are asked on another thread."""


class _ProgressRound:
    """One pass over the tasks. Threads share it: when the code of a task hangs, the next thread asks the others."""

    def __init__(self, slots: Sequence[TaskSlot]) -> None:
        self._left = deque(slots)
        self._unanswered = len(slots)
        self._changed = threading.Condition()
        self.found: dict[TaskId, TaskProgress | None] = {}

    def read(self, deadline: float, patience_s: float) -> None:
        """Asks all tasks until ``time.monotonic()`` is ``deadline``."""
        with self._changed:
            while self._unanswered and time.monotonic() < deadline:
                if self._left:
                    threading.Thread(target=self._run, name="progress", daemon=True).start()
                while self._unanswered and self._wait_for_answer(min(patience_s, deadline - time.monotonic())):
                    pass
            self._left.clear()  # too late: a thread that comes back asks no further task

    def _wait_for_answer(self, timeout_s: float) -> bool:
        before = self._unanswered
        return self._changed.wait_for(lambda: self._unanswered < before, max(0.0, timeout_s))

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._left:
                    return
                slot = self._left.popleft()
            found: TaskProgress | None = None
            try:
                found = slot.progress()
            finally:
                with self._changed:
                    self.found[slot.id] = found
                    self._unanswered -= 1
                    self._changed.notify_all()


def read_progress(slots: Sequence[TaskSlot], timeout_s: float, patience_s: float = _PATIENCE_S) -> dict[TaskId, TaskProgress]:
    """Returns the progress of tasks by ID, after at most ``timeout_s``. A task whose code does not answer costs one thread until
    it does; its progress has what needs none of its code."""
    current = _ProgressRound(slots)
    current.read(time.monotonic() + timeout_s, patience_s)
    answered = dict(current.found)
    found = {slot.id: answered[slot.id] if slot.id in answered else slot.counts() for slot in slots}
    return {task: one for task, one in found.items() if one is not None}
