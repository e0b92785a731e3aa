"""The thread of a task that takes care of its tables beside the commits."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence

from connectors.spark.tables.writer import TableWriter

log = logging.getLogger(__name__)

_INTERVAL_S = 5.0
_NICENESS = 10


class MaintenanceThread:
    """Visits tables that have had commits since its last visit, one after the other, at low priority."""

    def __init__(self, name: str, writers: Callable[[], Sequence[TableWriter]], interval_s: float = _INTERVAL_S) -> None:
        self._writers = writers
        self._interval_s = interval_s
        self._visited: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stops after the current table. May be called twice, and before :meth:`start`."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            # On Linux, this is the priority of the thread.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        while not self._stop.wait(self._interval_s):
            for writer in self._writers():
                if self._stop.is_set():
                    return
                self._visit(writer)

    def _visit(self, writer: TableWriter) -> None:
        commits = writer.progress.commits
        if self._visited.get(writer.name) == commits:
            return
        started = time.monotonic()
        try:
            writer.maintain(self._stop.is_set)
        except Exception as e:
            writer.progress.maintenance_failures += 1
            # The table works without it; commits report what is wrong with the table itself.
            log.warning("Maintenance of table %s failed and will be tried again: %s", writer.name, e)
            return
        writer.progress.maintenance_times.observe(time.monotonic() - started)
        self._visited[writer.name] = commits
