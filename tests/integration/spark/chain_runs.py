"""Runs the sink task with the converters and transformations of a worker, in any engine, without a broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from connect.converters.api import Converter
from connect.record import CREATE_TIME, RawBatch
from connect.sink import FailedRead, OffsetRange, RangeBatch
from tests.integration.spark.conftest import Run, Topic
from worker.model import TaskId
from worker.sink.range_reader import KafkaRangeDecoder, KafkaRangeReader

_JSON = "org.apache.kafka.connect.json.JsonConverter", {"schemas.enable": "true", "conversion.strict": "true"}
_HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter", dict[str, str]()
FIRST_MS = 1_700_000_000_000
GAP = (b"gap", b"gap")
"""An offset without a record, such as that of a transaction marker."""
Log = Sequence[tuple[bytes | None, bytes | None]]
Failed = tuple[int, int, bytes | None, str, str]
"""Partition, offset, value, stage, and error."""


@dataclass(frozen=True)
class ListTransformingReader:
    """Reads lists like the worker reads Kafka, in any process. The timestamp of a record is FIRST_MS plus its offset, in days."""

    kafka: KafkaRangeReader
    logs: Mapping[str, Mapping[int, Log]]
    headers: Mapping[tuple[int, int], list[tuple[str, bytes | None]]]
    raw: bool = False
    batch: int = 50
    fails_at: int | None = None
    """The offset at which the process dies, as long as ``marker`` does not exist."""

    def converters(self) -> tuple[Converter, Converter]:
        return self.kafka.converters()

    def undecoded(self) -> ListTransformingReader:
        return replace(self, raw=True)

    def decoder(self) -> KafkaRangeDecoder:
        return self.kafka.decoder()

    def chain_config(self) -> Mapping[str, str]:
        return self.kafka.chain_config()

    def read(self, offset_range: OffsetRange) -> Iterator[RangeBatch]:
        decoder = None if self.raw else self.decoder()
        for start in range(offset_range.first, offset_range.end, self.batch):
            end = min(offset_range.end, start + self.batch)
            raw = self.raw_batch(*offset_range.partition, start, end)
            if self.fails_at is not None and start <= self.fails_at < end:
                raise ConnectionFailed
            if decoder is None or not len(raw):
                yield RangeBatch(raw, None if self.raw else (), (), end)
                continue
            found = decoder.decode(raw)
            yield replace(found, end=end)
            if found.ends_range:
                return

    def raw_batch(self, topic: str, partition: int, start: int, end: int) -> RawBatch:
        """The records from one offset to below another."""
        log = self.logs[topic][partition]
        offsets = [offset for offset in range(start, end) if log[offset] is not GAP and log[offset] != GAP]
        listed = [self.headers.get((partition, offset)) for offset in offsets]
        times = [FIRST_MS + 86_400_000 * (offset % 3) for offset in offsets]
        return RawBatch(
            topic,
            partition,
            offsets,
            [log[offset][0] for offset in offsets],
            [log[offset][1] for offset in offsets],
            times,
            listed if any(listed) else None,
            [CREATE_TIME] * len(offsets),
        )


class ConnectionFailed(Exception):
    """Stands for an error of the process that reads."""


def chain_reader(settings: Mapping[str, str], topics: Sequence[Topic]) -> ListTransformingReader:
    kafka = KafkaRangeReader(TaskId("lake", 0), {}, _JSON, _JSON, _HEADERS, dict(settings))
    headers = {place: listed for topic in topics for place, listed in topic.headers.items()}
    return ListTransformingReader(kafka, {topic.name: topic.logs for topic in topics}, headers)


class ChainRun(Run):
    """A run whose records pass through the transformations of ``settings``."""

    def __init__(self, settings: Mapping[str, str], topics: Sequence[Topic], group: dict[Any, int]) -> None:
        self.reader = chain_reader(settings, topics)
        self.failed: dict[tuple[int, int], Failed] = {}
        self._decoder = self.reader.decoder()
        super().__init__(settings, topics, raw=False, group=group)
        self.context.range_reader = lambda: self.reader  # type: ignore[method-assign,assignment,return-value]
        self.context.report_failed_read = self._report  # type: ignore[method-assign]

    def _report(self, failure: FailedRead) -> Future[None]:
        record = failure.record
        place = record.partition, record.offset
        self.failed[place] = (*place, record.value, failure.stage, str(failure.error))
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _put(self, topic: Topic, partition: int, first: int, last: int) -> None:
        raw = self.reader.raw_batch(topic.name, partition, first, last)
        found = self._decoder.decode(raw) if len(raw) else RangeBatch(raw, (), (), last)
        for failure in found.failures:
            self._report(failure)
        self.task.put(list(found.records or ()))

    def step_until_failed(self) -> None:
        """Calls the task until it raises."""
        while True:
            self.task.put([])
            threading.Event().wait(0.01)
