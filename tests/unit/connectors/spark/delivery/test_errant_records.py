"""Errant records: each is reported once, however many tables refuse it."""

from __future__ import annotations

import pytest

from connect.errors import DataError
from connect.record import RawBatch, TopicPartition
from connect.testing.harness import MemoryReporter
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.delivery.errant_records import SparkErrantRecords

P0 = TopicPartition("t", 0)


def test_record_that_two_tables_refuse_is_reported_once_until_its_partition_is_read_again() -> None:
    reporter = MemoryReporter()
    errant = SparkErrantRecords(reporter, tolerant=True)
    errant.keep_raw(RawBatch("t", 0, [0, 1], [None, None], [b"x", b"y"], [0, 0]))
    first, second = (BadRecord.of(P0, offset, DataError("bad")) for offset in (0, 1))
    reports = errant.refuse([first])
    assert errant.refuse([first, second])[0] is reports[0]
    assert [record.offset for record, _ in reporter.reported_raw] == [0, 1]
    assert errant.count == 2
    errant.release({P0: 1}.get)
    assert len(errant.refuse([second])) == 1
    assert len(reporter.reported_raw) == 2
    errant.forget([P0])
    errant.keep_raw(RawBatch("t", 0, [1], [None], [b"y"], [0]))
    errant.refuse([second])
    assert len(reporter.reported_raw) == 3


def test_record_that_fails_the_task_fails_it_again() -> None:
    errant = SparkErrantRecords(None, tolerant=False)
    for _ in range(2):
        with pytest.raises(DataError, match="offset 0: bad"):
            errant.refuse([BadRecord.of(P0, 0, DataError("bad"))])
