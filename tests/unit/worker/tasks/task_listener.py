"""What a task tells, kept for a test."""

from __future__ import annotations

import threading
from collections.abc import Collection

from worker.tasks.worker_task import WorkerTask


class Listener:
    """Implements :class:`worker.tasks.worker_task.TaskListener`."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.error: BaseException | None = None
        self.ended = threading.Event()

    def on_running(self, task: WorkerTask) -> None:
        self.said.append("running")

    def on_paused(self, task: WorkerTask) -> None:
        self.said.append("paused")

    def on_failed(self, task: WorkerTask, error: BaseException) -> None:
        self.error = error
        self.ended.set()

    def on_ended(self, task: WorkerTask) -> None:
        self.ended.set()

    def on_topics(self, task: WorkerTask, topics: Collection[str]) -> None: ...
