"""What a sink task that reads offset ranges itself needs of the worker."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

from connect.record import TopicPartition
from connect.sink import FailedRead, RangeReader
from worker.errors.dead_letter import ConsumedRecord
from worker.errors.handler import ErrorHandler
from worker.errors.stages import RecordStage, StageError
from worker.sink.positions import SinkPositions
from worker.sink.range_reader import KafkaRangeReader, plugin_path
from worker.tasks.converters import Converters
from worker.tasks.transformation_chain import TransformationChain
from worker.tasks.worker_task import TaskHandle


class RangeReads:
    """Used on the task's thread."""

    def __init__(
        self,
        handle: TaskHandle,
        reader: KafkaRangeReader,
        positions: SinkPositions,
        converters: Converters,
        chain: TransformationChain,
        errors: ErrorHandler,
        report_topic: Callable[[str], None],
    ) -> None:
        self._handle = handle
        self._reader = reader
        self._positions = positions
        self._plugins = {
            plugin_path(plugin): plugin
            for plugin in (converters.key, converters.value, converters.header, *chain.transformations())
        }
        self._errors = errors
        self._report_topic = report_topic
        self.is_raw = False
        """Whether the task takes undecoded records."""

    def positions(self) -> dict[TopicPartition, int]:
        return self._positions.to_pre_commit(set(self._positions.assigned))

    def reader(self) -> RangeReader:
        return replace(self._reader, raw=self.is_raw)

    def count(self, partition: TopicPartition, records: int, size_bytes: int) -> None:
        if records:
            self._report_topic(partition.topic)
            self._handle.count(records, size_bytes)

    def report_failed(self, failure: FailedRead) -> Future[None]:
        record = failure.record
        where = f"topic {record.topic}, partition {record.partition}, offset {record.offset}"
        plugin = self._plugins[failure.plugin]
        error = StageError(RecordStage(failure.stage), plugin, where, failure.error, failure.alias)
        original = ConsumedRecord(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            record.timestamp_type,
            record.key,
            record.value,
            list(record.headers),
        )
        return self._errors.handle_failure(error, original)
