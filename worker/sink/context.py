"""What a sink task is given, and what it has asked for through it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from connect.converters.api import Converter
from connect.record import TopicPartition
from connect.sink import ErrantRecordReporter
from worker.kafka.sink_consumer import SinkConsumer
from worker.tasks.converters import Converters


class SinkContext:
    """Used on the task's thread (:class:`connect.sink.SinkTaskContext`).

    ``assigned`` is the set that the task's loop keeps; what the task asks for is collected here and taken by the loop.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        converters: Converters,
        consumer: SinkConsumer,
        assigned: Collection[TopicPartition],
        *,
        raw_allowed: bool,
        reporter: ErrantRecordReporter | None,
        may_resume: Callable[[], bool],
    ) -> None:
        """``may_resume`` says whether reading is not held up for the worker's own reasons."""
        self._config = config
        self._converters = converters
        self._consumer = consumer
        self._assigned = assigned
        self._raw_allowed = raw_allowed
        self._reporter = reporter
        self._may_resume = may_resume
        self._offsets: dict[TopicPartition, int] = {}
        self._timeout_s: float | None = None
        self.paused: set[TopicPartition] = set()
        self.commit_requested = False

    def configs(self) -> Mapping[str, str]:
        return self._config

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._offsets.update((TopicPartition(*place), offset) for place, offset in offsets.items())

    def timeout(self, timeout_ms: int) -> None:
        self._timeout_s = max(0, timeout_ms) / 1000

    def assignment(self) -> set[TopicPartition]:
        return set(self._assigned)

    def pause(self, *partitions: TopicPartition) -> None:
        wanted = {TopicPartition(*p) for p in partitions}
        self.paused |= wanted
        self._consumer.pause(wanted & set(self._assigned))

    def resume(self, *partitions: TopicPartition) -> None:
        wanted = {TopicPartition(*p) for p in partitions}
        self.paused -= wanted
        if self._may_resume():
            self._consumer.resume(wanted & set(self._assigned))

    def request_commit(self) -> None:
        self.commit_requested = True

    @property
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        return self._reporter

    @property
    def key_converter(self) -> Converter:
        return self._converters.key

    @property
    def value_converter(self) -> Converter:
        return self._converters.value

    @property
    def raw_allowed(self) -> bool:
        return self._raw_allowed

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        found = {place: self._consumer.end_offset(place, cached=False) for place in partitions}
        return {place: offset for place, offset in found.items() if offset is not None}

    def take_offsets(self) -> dict[TopicPartition, int]:
        """The positions asked for since the last call."""
        taken, self._offsets = self._offsets, {}
        return taken

    def take_timeout(self) -> float | None:
        """The time-out asked for since the last call, in seconds."""
        taken, self._timeout_s = self._timeout_s, None
        return taken
