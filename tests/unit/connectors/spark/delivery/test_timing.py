"""When commits start, and the ages that progress shows."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from connectors.spark.delivery.timing import CommitTiming, Latency
from tests.unit.connectors.spark.delivery.fakes import changes


def test_an_interval_is_kept_whatever_commits_take() -> None:
    timing = CommitTiming(5.0, 1.0)
    timing.observe(4.0, 4.0, 9.0)
    assert timing.wait_s == 5.0


def test_commits_start_so_early_that_records_become_visible_in_time() -> None:
    timing = CommitTiming(None, 1.0)
    assert timing.wait_s == 0.5  # no commit has shown how long it takes
    for _ in range(3):
        timing.observe(0.2, 0.2, 0.9)
    assert timing.wait_s == pytest.approx(0.75)
    timing.observe(3.0, 3.0, 3.9)  # a checkpoint, now and then
    assert timing.wait_s == pytest.approx(0.75)
    timing.observe(3.0, 3.0, 3.9)
    assert timing.wait_s == 0.0


def test_ages_are_those_of_the_newest_and_the_oldest_record_of_each_commit() -> None:
    timing = CommitTiming(None, 1.0)
    assert timing.newest_age_ms() is None
    for i in range(100):
        timing.observe(0.25, 0.25 + i, 1.0)
    assert timing.newest_age_ms() == {"p50": 50_250, "p99": 99_250}
    assert timing.oldest_age_ms() == {"p50": 1000, "p99": 1000}


def test_time_that_is_not_in_milliseconds_fails_no_commit() -> None:
    batch = changes([0], ops=["c"])
    batch = replace(batch, meta=batch.meta.set_column(2, "source_ms", pa.array([2**62 + 1], pa.int64())))
    assert Latency().observe([batch], 5.0) == 5.0 - 2**62
