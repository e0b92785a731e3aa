"""The spool as the tasks of a connector share it: segments in, and what the reader has committed out."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from enum import Enum

from connect.spool.config import SpoolSettings
from connect.spool.index import Offsets, SpoolEntry
from connect.spool.segments import RecordRun
from connect.spool.writer import SpoolWriter


class SpoolMode(Enum):
    """What a spooler runs for."""

    STREAM = "stream"
    LOAD = "load"
    """To read what exists, and end there. All of that must fit on the disk. A source that cannot tell its end is refused."""
    SCHEMA = "schema"
    """For the schema of the records: like LOAD, but a source that cannot tell is read on."""


class SpoolOutput:
    """Safe from any thread. Its creator closes the writer."""

    def __init__(self, writer: SpoolWriter, settings: SpoolSettings, mode: SpoolMode, *, keeps_columns: bool = False) -> None:
        """``keeps_columns``: values may be columns instead of bytes (:mod:`connect.spool.record_columns`)."""
        self.settings = settings
        self.mode = mode
        self.keeps_columns = keeps_columns
        self._writer = writer
        self._lock = threading.Lock()
        self._confirmed: dict[int, dict[str, str | None]] = {}
        self._loaded: set[int] = set()
        """The start IDs of tasks that have read what existed."""

    def add(
        self, task: int, start_id: int, runs: Sequence[tuple[RecordRun, int]], offsets: Offsets, *, loaded: bool = False
    ) -> SpoolEntry:
        """Adds records of a task (:meth:`connect.spool.writer.SpoolWriter.add_segment`)."""
        entry = self._writer.add_segment(task, runs, offsets, loaded=loaded)
        if loaded:
            with self._lock:
                self._loaded.add(start_id)
        return entry

    @property
    def is_full(self) -> bool:
        """Whether the connector must wait until the reader has planned to read more. It never waits for a commit: Spark commits
        a batch when it plans the next one, for which it may need what the connector has yet to read. Only a stream plans."""
        return self.mode is SpoolMode.STREAM and self._writer.unplanned_bytes >= self.settings.max_bytes

    def have_loaded(self, start_ids: Collection[int]) -> bool:
        """Whether these starts of tasks have read what existed. A task that was started again may have other work."""
        with self._lock:
            return self._loaded.issuperset(start_ids)

    def confirm(self, tasks: int) -> None:
        """Gives each task the source offsets that the reader has committed. Once every task has told its source, the next call
        removes the segments before them. Called regularly by one thread. ``tasks`` is the number of tasks that there are now."""
        self._writer.count_planned()
        with self._lock:
            if any(task < tasks for task in self._confirmed):
                return
        self._writer.remove_confirmed()
        found = {task: dict(offsets) for task, offsets in self._writer.take_confirmed().items()}
        with self._lock:
            self._confirmed = found

    def take_confirmed(self, task: int) -> Offsets:
        """Returns the source offsets that a task must confirm to its source. It calls :meth:`confirmed` when it has."""
        with self._lock:
            return dict(self._confirmed.get(task, {}))

    def confirmed(self, task: int, offsets: Offsets) -> None:
        """A task has confirmed these offsets."""
        with self._lock:
            if self._confirmed.get(task) == offsets:
                del self._confirmed[task]
