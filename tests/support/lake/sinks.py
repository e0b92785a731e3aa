"""A sink task, reduced to what it does with one table: it seeks to the table's ends, holds records, and commits them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from connect.errors import ConnectError, RetriableError
from connect.record import TopicPartition
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.tables.writer import TableWriter
from tests.support.lake.calls import Calls
from tests.support.lake.lakes import Lake
from tests.support.lake.model import Topic, settings_of

_FLUSHES = 2
"""How often a task that closes tries to commit what waits."""


class Sink:
    """One task at a time, on one worker. Other tasks may have the same partitions: then this one is a zombie, or they are."""

    def __init__(self, lake: Lake, topic: Topic, calls: Calls, group: Mapping[TopicPartition, int]) -> None:
        """``group`` has the offsets of the consumer group that somebody has set."""
        self._group = group
        self._lake = lake
        self._topic = topic
        self._calls = calls
        self._received = 0
        self._visited: int | None = None
        self._waiting: list[tuple[TopicPartition, ChangeBatch]] = []
        self.positions: dict[TopicPartition, int] = {}
        """By partition of the task: where its consumer goes on."""
        self.writer: TableWriter | None = None
        """None while there is no task."""
        self.error: ConnectError | None = None
        """What has failed the task. It is closed afterwards, and somebody may start it again."""

    @property
    def has_all(self) -> bool:
        """Whether it has received all records of its partitions, and committed them."""
        at_end = all(end == len(self._topic.partitions[tp]) for tp, end in self.positions.items())
        return at_end and not self._waiting and self.error is None

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """Assigns more partitions: to a new task, if there is none or if it has failed. Raises ConnectError."""
        if self.writer is None or self.error is not None:
            self.kill()
            self.writer = TableWriter(
                "t", settings_of(self._lake.mode), self._lake.open(settings_of(self._lake.mode), self._calls)
            )
        partitions = [tp for tp in partitions if tp not in self.positions]
        if not partitions:
            return
        try:
            # As the delivery does: only those that are new.
            ends = self.writer.committed_offsets(partitions).ends
        except ConnectError as e:
            self.error = e
            raise
        self.positions |= {tp: ends.get(tp, self._group.get(tp, 0)) for tp in partitions}

    def put(self, count: int) -> None:
        """Receives so many records of each partition, which wait from then on."""
        for tp, first in self.positions.items():
            end = min(first + count, len(self._topic.partitions[tp]))
            if end > first and self.writer is not None:
                self._waiting.append((tp, self._topic.batch(tp, first, end, self._received)))
                self._received += end - first
                self.positions[tp] = end

    def commit(self) -> None:
        """Commits what waits. After an error of the storage it waits again; others fail the task. Raises ConnectError."""
        if self.writer is None or self.error is not None or not self._waiting:
            return
        try:
            self._flush()
        except RetriableError:
            return
        except ConnectError as e:
            self.error = e
            raise

    def _flush(self) -> None:
        assert self.writer is not None
        self.writer.commit([batch for _, batch in self._waiting], list(self.positions))
        self._waiting.clear()

    def maintain(self) -> None:
        """A visit of the task's maintenance thread, which logs what fails."""
        if self.writer is None or self._visited == self.writer.progress.commits:
            return
        commits = self.writer.progress.commits
        try:
            self.writer.maintain(lambda: False)
        except (ConnectError, OSError):
            return
        self._visited = commits

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Gives partitions back, as when they move to another task: commits what waits, as far as possible."""
        if self.writer is None:
            return
        for _ in range(_FLUSHES if self._waiting else 0):
            try:
                self._flush()
                break
            except RetriableError:
                continue
            except ConnectError as e:
                self.error = e
                break
        self._waiting = [(tp, batch) for tp, batch in self._waiting if tp not in partitions]
        for tp in partitions:
            self.positions.pop(tp, None)
        if not self.positions:
            self.kill()

    def kill(self) -> None:
        """The process is gone."""
        self.writer, self.error, self._visited = None, None, None
        self._waiting.clear()
        self.positions.clear()
