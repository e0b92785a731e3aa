"""Runs the sink task with the converters and transformations of a worker, in any engine, without a broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from connect.sink import FailedRead, RangeBatch
from tests.integration.spark.conftest import Context, Run, Topic
from tests.support.range_readers import ListTransformingReader, list_reader

Failed = tuple[int, int, bytes | None, str, str]
"""Partition, offset, value, stage, and error."""


class _ChainContext(Context):
    """Reads and reports with the run."""

    def __init__(self, running: ChainRun, raw: bool) -> None:
        super().__init__(running.topics, raw)
        self._running = running

    def range_reader(self) -> ListTransformingReader:
        return self._running.reader

    def report_failed_read(self, failure: FailedRead) -> Future[None]:
        return self._running.report(failure)


class ChainRun(Run):
    """A run whose records pass through the transformations of ``settings``."""

    def __init__(self, settings: Mapping[str, str], topics: Sequence[Topic], group: dict[Any, int]) -> None:
        headers = {place: listed for topic in topics for place, listed in topic.headers.items()}
        self.reader = list_reader(settings, {topic.name: topic.logs for topic in topics}, headers)
        self.failed: dict[tuple[int, int], Failed] = {}
        self._decoder = self.reader.decoder()
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
        raw = self.reader.raw_batch(topic.name, partition, first, last)
        found = self._decoder.decode(raw) if len(raw) else RangeBatch(raw, (), (), last)
        for failure in found.failures:
            self.report(failure)
        self.task.put(list(found.records or ()))
