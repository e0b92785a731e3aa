"""The context of a sink task, which collects what the task requests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future

from connect.converters.api import Converter
from connect.record import TopicPartition
from connect.sink import ErrantRecordReporter, FailedRead, RangeReader, TopicIdentity
from worker.kafka.sink_consumer import SinkConsumer
from worker.sink.pauses import ConsumptionPauses
from worker.sink.range_reads import RangeReads
from worker.tasks.converters import Converters

_COMMITTED_TIMEOUT_S = 5.0


class SinkContext:
    """Used on the task's thread, except :meth:`topic_identities` (:class:`connect.sink.SinkTaskContext`).

    The task's loop takes the requests that are collected here.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        converters: Converters,
        consumer: SinkConsumer,
        assigned: Collection[TopicPartition],
        pauses: ConsumptionPauses,
        ranges: RangeReads,
        *,
        raw_allowed: bool,
        reporter: ErrantRecordReporter | None,
    ) -> None:
        """``assigned`` is a live view of the assigned partitions."""
        self._config = config
        self._converters = converters
        self._consumer = consumer
        self._assigned = assigned
        self._pauses = pauses
        self._ranges = ranges
        self._raw_allowed = raw_allowed
        self._reporter = reporter
        self._offsets: dict[TopicPartition, int] = {}
        self._timeout_s: float | None = None
        self.commit_requested = False

    def configs(self) -> Mapping[str, str]:
        return self._config

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._offsets.update((TopicPartition(*partition), offset) for partition, offset in offsets.items())

    def timeout(self, timeout_ms: int) -> None:
        self._timeout_s = max(0, timeout_ms) / 1000

    def assignment(self) -> set[TopicPartition]:
        return set(self._assigned)

    def pause(self, *partitions: TopicPartition) -> None:
        self._pauses.pause({TopicPartition(*p) for p in partitions})

    def resume(self, *partitions: TopicPartition) -> None:
        self._pauses.resume({TopicPartition(*p) for p in partitions})

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
        found = {partition: self._consumer.end_offset(partition, cached=False) for partition in partitions}
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        found = {partition: self._consumer.beginning_offset(partition) for partition in partitions}
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def group_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._consumer.committed(partitions, _COMMITTED_TIMEOUT_S) if partitions else {}

    def positions(self) -> dict[TopicPartition, int]:
        return {**self._ranges.positions(), **self._offsets}

    def range_reader(self) -> RangeReader:
        return self._ranges.reader()

    def count_read(self, partition: TopicPartition, records: int, size_bytes: int) -> None:
        self._ranges.count(partition, records, size_bytes)

    def report_failed_read(self, failure: FailedRead) -> Future[None]:
        return self._ranges.report_failed(failure)

    def topic_identities(self, topics: Collection[str]) -> dict[str, TopicIdentity]:
        return self._consumer.topic_identities(topics)

    def take_offsets(self) -> dict[TopicPartition, int]:
        """Returns the offsets requested since the last call."""
        taken, self._offsets = self._offsets, {}
        return taken

    def take_timeout(self) -> float | None:
        """Returns the timeout requested since the last call, in seconds."""
        taken, self._timeout_s = self._timeout_s, None
        return taken
