"""Runs the sink task with the converters and transformations of a worker, in any engine, without a broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from connect.converters.api import Converter
from connect.record import RawBatch, TopicPartition
from connect.sink import FailedRead, OffsetRange, RangeBatch
from tests.integration.spark.conftest import Context, Run, Topic
from worker.model import TaskId
from worker.sink.decoding import build_raw_batch
from worker.sink.range_reader import KafkaRangeDecoder, KafkaRangeReader

Failed = tuple[int, int, bytes | None, str, str]
"""Partition, offset, value, stage, and error."""
GAP = (b"gap", b"gap")
"""An offset without a record, such as that of a transaction marker."""
Log = Sequence[tuple[bytes | None, bytes | None]]
_JSON = "org.apache.kafka.connect.json.JsonConverter", {"schemas.enable": "true", "conversion.strict": "true"}
_HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter", dict[str, str]()
_FIRST_MS = 1_700_000_000_000
_CREATE_TIME = 1
_BATCH = 50


@dataclass(frozen=True)
class _Message:
    """A record of a log in the form of the client's message; its timestamp depends on its offset."""

    place: tuple[str, int, int]
    record: tuple[bytes | None, bytes | None]
    listed: list[tuple[str, bytes | None]] | None

    def topic(self) -> str:
        return self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def offset(self) -> int:
        return self.place[2]

    def key(self) -> bytes | None:
        return self.record[0]

    def value(self) -> bytes | None:
        return self.record[1]

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.listed

    def timestamp(self) -> tuple[int, int]:
        return _CREATE_TIME, _FIRST_MS + 86_400_000 * (self.place[2] % 3)


@dataclass(frozen=True)
class ChainReader:
    """Reads lists like the worker reads Kafka, in any process."""

    kafka: KafkaRangeReader
    logs: Mapping[str, Mapping[int, Log]]
    headers: Mapping[tuple[int, int], list[tuple[str, bytes | None]]]
    """By partition and offset."""

    def converters(self) -> tuple[Converter, Converter]:
        return self.kafka.converters()

    def read(self, offset_range: OffsetRange) -> Iterator[RangeBatch]:
        decoder = KafkaRangeDecoder(self.kafka)
        for start in range(offset_range.first, offset_range.end, _BATCH):
            batch, is_over = self.decode(decoder, offset_range.partition, start, min(offset_range.end, start + _BATCH))
            yield batch
            if is_over:
                return

    def decode(self, decoder: KafkaRangeDecoder, partition: TopicPartition, start: int, end: int) -> tuple[RangeBatch, bool]:
        """The records from one offset to below another, and whether a failure ends the range."""
        log = self.logs[partition.topic][partition.partition]
        messages: list[Any] = [
            _Message((*partition, offset), log[offset], self.headers.get((partition.partition, offset)))
            for offset in range(start, end)
            if log[offset] != GAP
        ]
        raw: RawBatch = build_raw_batch(partition, messages)
        if not messages:
            return RangeBatch(raw, (), (), end), False
        records, failures, is_over = decoder.decode(partition, messages)
        return RangeBatch(raw, records, failures, end), is_over


class _ChainContext(Context):
    """Reads and reports with the run."""

    def __init__(self, running: ChainRun, raw: bool) -> None:
        super().__init__(running.topics, raw)
        self._running = running

    def range_reader(self) -> ChainReader:
        return self._running.reader

    def report_failed_read(self, failure: FailedRead) -> Future[None]:
        return self._running.report(failure)


class ChainRun(Run):
    """A run with JsonConverters, whose records pass through the transformations of ``settings``."""

    def __init__(self, settings: Mapping[str, str], topics: Sequence[Topic], group: dict[Any, int]) -> None:
        kafka = KafkaRangeReader(TaskId("lake", 0), {}, _JSON, _JSON, _HEADERS, dict(settings))
        headers = {place: listed for topic in topics for place, listed in topic.headers.items()}
        self.reader = ChainReader(kafka, {topic.name: topic.logs for topic in topics}, headers)
        self.failed: dict[tuple[int, int], Failed] = {}
        self._decoder = KafkaRangeDecoder(kafka)
        super().__init__(settings, topics, raw=False, group=group)

    def _new_context(self, raw: bool) -> _ChainContext:
        return _ChainContext(self, raw)

    def report(self, failure: FailedRead) -> Future[None]:
        record = failure.record
        place = record.partition, record.offset
        self.failed[place] = (*place, record.value, failure.stage, str(failure.error))
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _put(self, topic: Topic, partition: int, first: int, last: int) -> None:
        found, _ = self.reader.decode(self._decoder, TopicPartition(topic.name, partition), first, last)
        for failure in found.failures:
            self.report(failure)
        self.task.put(list(found.records or ()))
