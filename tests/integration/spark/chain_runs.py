"""Runs the sink task with the converters and transformations of a worker, in any engine, without a broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from connect.sink import FailedRead, RangeBatch
from tests.integration.spark.conftest import Run, Topic
from tests.support.range_readers import list_reader

Failed = tuple[int, int, bytes | None, str, str]
"""Partition, offset, value, stage, and error."""


class ChainRun(Run):
    """A run whose records pass through the transformations of ``settings``."""

    def __init__(self, settings: Mapping[str, str], topics: Sequence[Topic], group: dict[Any, int]) -> None:
        headers = {place: listed for topic in topics for place, listed in topic.headers.items()}
        self.reader = list_reader(settings, {topic.name: topic.logs for topic in topics}, headers)
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
