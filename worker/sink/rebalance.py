"""What a sink task does when its consumer group rebalances: open, commit, and close partitions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from connect.errors import ConnectError
from connect.record import TopicPartition
from connect.sink import SinkTask
from worker.kafka.sink_consumer import PartitionStarts, SinkConsumer
from worker.observability.activity import TaskPhase
from worker.sink.commits import SinkCommits
from worker.sink.context import SinkContext
from worker.sink.delivery import SinkDelivery
from worker.sink.pauses import ConsumptionPauses
from worker.sink.positions import SinkPositions
from worker.tasks.worker_task import TaskHandle

T = TypeVar("T")

log = logging.getLogger(__name__)

_COMMITTED_TIMEOUT_S = _START_OFFSETS_TIMEOUT_S = 5.0
_RETRY_S = 0.1


class PartitionHandler:
    """Opens assigned partitions; commits and closes revoked ones. Used on the task's thread only."""

    def __init__(
        self,
        handle: TaskHandle,
        task: SinkTask,
        consumer: SinkConsumer,
        context: SinkContext,
        positions: SinkPositions,
        pauses: ConsumptionPauses,
        delivery: SinkDelivery,
        commits: SinkCommits,
    ) -> None:
        self._handle = handle
        self._task = task
        self._consumer = consumer
        self._context = context
        self._positions = positions
        self._pauses = pauses
        self._delivery = delivery
        self.commits = commits

    def assign(self, partitions: list[TopicPartition]) -> PartitionStarts:
        """Opens newly assigned partitions and returns where to start reading them."""
        answer = self._committed_offsets(partitions)
        committed = answer or {}
        missing = [p for p in partitions if p not in committed]
        start_offsets = self._consumer.start_offsets(missing, _START_OFFSETS_TIMEOUT_S)
        self._positions.add(partitions, committed, start_offsets)
        if partitions:
            log.info("Task %s was assigned %s", self._handle.id, ", ".join(map(str, sorted(partitions))))
            self._handle.activity.enter(TaskPhase.OPENING)
            self._task.open(partitions)
            self._handle.activity.enter(TaskPhase.WAITING)
        unknown = {} if answer is None else {p: self._consumer.unknown_start() for p in missing}
        starts = {**unknown, **committed, **start_offsets}
        # Promise 6: offsets that the task requested in open() take precedence over those of the group.
        for partition, offset in self._context.take_offsets().items():
            if partition in partitions:
                starts[partition] = offset
                self._positions.rewind(partition, offset)
            elif partition in self._positions.assigned:
                self._context.offset({partition: offset})
        return PartitionStarts(starts, self._pauses.find_paused(partitions))

    def _committed_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int] | None:
        """Returns the group's offsets; None if the task has to stop before there is an answer."""
        while True:
            try:
                return self._consumer.committed(partitions, _COMMITTED_TIMEOUT_S) if partitions else {}
            except ConnectError as e:
                if self._handle.control.stopping:
                    return None
                log.warning("%s. It will be retried", e.message)
                self._handle.control.wait_for_stop(_RETRY_S)

    def revoke(self, partitions: Collection[TopicPartition]) -> None:
        """Commits and closes partitions that go to another task."""
        assigned = [p for p in partitions if p in self._positions.assigned]
        if assigned:
            self.commits.commit_and_close(assigned)
            self._forget(assigned)
            self._handle.activity.enter(TaskPhase.WAITING)

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        """Closes partitions that another task already has: nothing may be committed or written for them (promise 4)."""
        assigned = [p for p in partitions if p in self._positions.assigned]
        if assigned:
            log.warning(
                "Task %s lost %s to another member of the group", self._handle.id, ", ".join(map(str, assigned))
            )  # fmt: skip
            self._handle.activity.enter(TaskPhase.OPENING)
            try:
                self._task.close_partitions(assigned, lost=True)
            finally:
                self._forget(assigned)
                self._handle.activity.enter(TaskPhase.WAITING)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        self._positions.remove(partitions)
        self._pauses.forget(partitions)
        self._delivery.drop(partitions)


class RebalanceCallbacks:
    """Receives the consumer's callbacks (:class:`worker.kafka.sink_consumer.RebalanceListener`).

    Keeps an error for :meth:`raise_error`: it must not pass through the client's C code.
    """

    def __init__(self, is_cancelled: Callable[[], bool]) -> None:
        """``is_cancelled`` says whether the task was cut off; it hears of no rebalance then."""
        self._is_cancelled = is_cancelled
        self._error: BaseException | None = None
        self.handler: PartitionHandler | None = None
        """Set before the consumer subscribes."""
        self.rebalanced = False
        """Whether there was a rebalance since this was last set to False."""

    def on_assigned(self, partitions: list[TopicPartition]) -> PartitionStarts:
        nothing = PartitionStarts({}, partitions)
        if self.handler is None or self._is_cancelled():
            return nothing
        return self._run(self.handler.assign, partitions) or nothing

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        if self.handler is not None and not self._is_cancelled():
            self._run(self.handler.revoke, partitions)

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        if self.handler is not None and not self._is_cancelled():
            self._run(self.handler.lose, partitions)

    def on_committed(self, offsets: Mapping[TopicPartition, int], error: ConnectError | None) -> None:
        if self.handler is not None:
            self.handler.commits.on_committed(offsets, error)

    def raise_error(self) -> None:
        """Raises the first error of a callback since the last call."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _run(self, callback: Callable[[list[TopicPartition]], T], partitions: list[TopicPartition]) -> T | None:
        self.rebalanced = True
        try:
            return callback(partitions)
        except BaseException as e:
            if self._error is None:
                self._error = e
            return None
