"""Why a sink task does not read its partitions: an operator paused it, a put is being retried, or the task paused some itself."""

from __future__ import annotations

from collections.abc import Collection

from connect.record import TopicPartition
from worker.kafka.sink_consumer import SinkConsumer


class ConsumptionPauses:
    """Used on the task's thread only."""

    def __init__(self, consumer: SinkConsumer, assigned: Collection[TopicPartition]) -> None:
        """``assigned`` is a live view of the assigned partitions."""
        self._consumer = consumer
        self._assigned = assigned
        self.by_operator = False
        self._for_retry = False
        self._by_task: set[TopicPartition] = set()

    @property
    def by_sink(self) -> bool:
        """Whether the task itself has paused a partition."""
        return bool(self._by_task)

    @property
    def _pauses_all(self) -> bool:
        return self.by_operator or self._for_retry

    def set_by_operator(self, paused: bool) -> None:
        """Pauses or resumes all partitions as an operator requested."""
        self.by_operator = paused
        self._apply(paused)

    def set_for_retry(self, paused: bool) -> None:
        """Pauses or resumes all partitions because of a put that is retried."""
        self._for_retry = paused
        self._apply(paused)

    def _apply(self, paused: bool) -> None:
        if paused:
            self._consumer.pause(self._assigned)
        elif not self._pauses_all:
            self._consumer.resume(set(self._assigned) - self._by_task)

    def pause(self, partitions: set[TopicPartition]) -> None:
        """Pauses partitions as the task requested; it may name some that it will be assigned later."""
        self._by_task |= partitions
        self._consumer.pause(partitions & set(self._assigned))

    def resume(self, partitions: set[TopicPartition]) -> None:
        """Resumes partitions as the task requested, unless all are paused for another reason."""
        self._by_task -= partitions
        if not self._pauses_all:
            self._consumer.resume(partitions & set(self._assigned))

    def find_paused(self, partitions: Collection[TopicPartition]) -> Collection[TopicPartition]:
        """Returns which of the newly assigned partitions must be paused from the start."""
        return partitions if self._pauses_all else self._by_task & set(partitions)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Drops the task's own pauses of partitions that are no longer assigned."""
        self._by_task -= set(partitions)
