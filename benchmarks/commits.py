"""Measures a stream of commits at a steady rate: cores, and the time from a commit to its record in the topic."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.change_stream import ChangeStream, latencies_ms, source_time_us, spread_ms
from benchmarks.environment import BenchmarkEnvironment
from benchmarks.measure import report

PER_S = 1_000
SECONDS = int(os.environ.get("SLUICE_BENCH_SECONDS", "20"))
_WARM_UP = 2_000


def measure_commits(
    here: BenchmarkEnvironment,
    stream: ChangeStream,
    name: str,
    topics: Sequence[str],
    work: Callable[[int], int],
    committed_us: Callable[[Any], int] = source_time_us,
) -> None:
    """Prints the result line. ``work`` commits as often as it is told, :data:`PER_S` times a second, and returns the number of
    records; ``committed_us`` returns the time of the commit from a record's value."""
    count = work(_WARM_UP)
    stream.await_end(topics, count, 60)
    starts = {topic: here.end_offset(topic) for topic in topics}
    figures = stream.measure(lambda: work(SECONDS * PER_S), 60, topics)
    cores = round(figures.cpu_s / SECONDS, 3)  # at the nominal rate: a busy machine commits more slowly
    report(name, figures, None, cores=cores, latency_ms=spread_ms(latencies_ms(here, starts, committed_us)))
