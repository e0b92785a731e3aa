"""Random changes (70 % updates, 20 % inserts, 10 % deletes) into a Delta table; beside foreachBatch with MERGE.

The table has 1,000,000 rows (``SLUICE_BENCH_ROWS=10000000`` for more), which the sink loads first. The main figures are
200,000 changes at once (``SLUICE_BENCH_CHANGES``). ``small_commit`` are commits of 1,000 changes, one after the other, once the
compaction after the load has ended. ``sustained`` are changes at a steady rate for 30 seconds (``SLUICE_BENCH_RATE``, or seven
tenths of the first rate). The peer merges two batches of a quarter of the changes into a copy of the table.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from benchmarks.delta_log import TableLog, freshness_ms
from benchmarks.environment import BenchmarkEnvironment, environment
from benchmarks.lake_events import EventFormat, Message, RandomChanges, inserts, produce, produce_at_rate
from benchmarks.lake_worker import (
    MEMORY,
    TIMEOUT_S,
    LakeWorker,
    create_topics,
    event_format,
    follow_load,
    lake_worker,
    number,
    sink,
    spark_jars,
)
from benchmarks.measure import Figures, Measured, quantiles, report

ROWS = number("ROWS", 1_000_000)
CHANGES = number("CHANGES", 200_000)
COMMITS = number("COMMITS", 20)
COMMIT_CHANGES = 1_000
SECONDS = number("SECONDS", 30)
RATE = number("RATE", 0)
_FRESH_MS = 2_000
_SETTLE_S = 10.0
_TOPIC = "changes"
_PEER_BATCH = max(CHANGES // 4, 1)


def _backlog(worker: LakeWorker, log: TableLog, producer: Producer, changes: RandomChanges) -> Figures:
    """Changes as fast as they can be applied; the producer's time counts for neither side."""
    messages = changes.take(CHANGES)
    cpu_s, started = worker.process.cpu_s(), time.monotonic()
    produce(producer, _TOPIC, messages)
    worker.wait_for_event(log, changes.last)
    wall_s = time.monotonic() - started
    figures = worker.process.figures(CHANGES)
    return Figures(CHANGES, wall_s, figures.cpu_s - cpu_s, figures.peak_rss_mb)


def _settle(worker: LakeWorker) -> None:
    """Waits until the compaction that follows a load has ended, at most five minutes."""
    for _ in range(30):
        cpu_s = worker.process.cpu_s()
        time.sleep(_SETTLE_S)
        if worker.process.cpu_s() - cpu_s < _SETTLE_S / 10:
            return


def _small_commits(worker: LakeWorker, log: TableLog, producer: Producer, changes: RandomChanges) -> dict[str, Any]:
    cpu_s, commits, started = worker.process.cpu_s(), len(log.commits), time.monotonic()
    for _ in range(COMMITS):
        produce(producer, _TOPIC, changes.take(COMMIT_CHANGES))
        worker.wait_for_event(log, changes.last)
    return {
        "commits": len(log.commits) - commits,
        "wall_ms_per_1000_changes": round((time.monotonic() - started) * 1000 / COMMITS),
        "cpu_ms_per_1000_changes": round((worker.process.cpu_s() - cpu_s) * 1000 / COMMITS),
    }


def _sustained(worker: LakeWorker, log: TableLog, producer: Producer, changes: RandomChanges, rate: float) -> dict[str, Any]:
    first, commits = changes.last + 1, len(log.commits)
    times_ms: list[float] = []

    def take(count: int) -> list[tuple[str, Message]]:
        now_ms = time.time() * 1000
        times_ms.extend([now_ms] * count)
        return [(_TOPIC, message) for message in changes.take(count, int(now_ms), ends_in_update=False)]

    cpu_s, started = worker.process.cpu_s(), time.monotonic()
    reached = produce_at_rate(producer, rate, SECONDS, take)
    times_ms.append(time.time() * 1000)
    produce(producer, _TOPIC, changes.take(1))
    worker.wait_for_event(log, changes.last)
    wall_s, cpu_s = time.monotonic() - started, worker.process.cpu_s() - cpu_s
    return {
        "produced_per_s": round(reached),
        "visible_per_s": round(len(times_ms) / wall_s),
        "cpu_ms_per_1000_changes": round(cpu_s * 1e6 / len(times_ms)),
        "commits": len(log.commits) - commits,
        "freshness_ms": quantiles(freshness_ms(log.commits, first, times_ms)),
        "freshness_ms_by_worker": worker.latency_ms("lake"),
    }


def _foreach_batch(here: BenchmarkEnvironment, form: EventFormat, table: Path, messages: Iterable[Message], last: int) -> Figures:
    """MERGE by a plain Spark program, from its first merge on: its start does not count, as ours does not."""
    create_topics(here, ["merged"])
    log = TableLog(table).read()
    produce(here.producer(), "merged", messages)
    command = [sys.executable, "-m", "benchmarks.structured_streaming_merge", here.broker.bootstrap, "merged", str(table)]
    command += [str(here.home / "checkpoint"), str(_PEER_BATCH), spark_jars(), MEMORY, *(["schemas"] if form.schemas else [])]
    before = len(log.commits)
    with Measured(command, here.home / "theirs.log") as measured:
        measured.wait_until(lambda: len(log.read().commits) > before, TIMEOUT_S, 0.05)
        cpu_s, started = measured.cpu_s(), time.monotonic()
        measured.wait_until(lambda: log.read().last_event >= last, TIMEOUT_S, 0.05)
        wall_s, done = time.monotonic() - started, measured.figures(2 * _PEER_BATCH)
    return Figures(2 * _PEER_BATCH, wall_s, done.cpu_s - cpu_s, done.peak_rss_mb)


def main() -> None:
    form = event_format()
    with environment() as here:
        create_topics(here, [_TOPIC])
        producer, changes = here.producer(), RandomChanges(form, ROWS)
        size = produce(producer, _TOPIC, inserts(form, ROWS, b"r"))
        lake = here.home / "ours"
        copy = here.home / "copy"
        with lake_worker(here, form, [sink("lake", [_TOPIC], lake, "upsert", _FRESH_MS)], lake) as worker:
            log = worker.log(_TOPIC)
            load = follow_load(worker, log, ROWS)
            load_s = worker.process.figures(ROWS).wall_s
            shutil.copytree(lake / _TOPIC, copy)
            ours = _backlog(worker, log, producer, changes)
            _settle(worker)
            small = _small_commits(worker, log, producer, changes)
            rate = RATE or max(0.7 * CHANGES / ours.wall_s, 100)
            sustained = _sustained(worker, log, producer, changes, rate)
        others = RandomChanges(form, ROWS)
        theirs = _foreach_batch(here, form, copy, others.take(3 * _PEER_BATCH), ROWS + 3 * _PEER_BATCH)
    report(
        "lake_upsert",
        ours,
        None,
        rows=ROWS,
        bytes_per_record=size,
        load={**load.as_dict(), "from_launch_s": round(load_s, 1)},
        small_commit=small,
        sustained=sustained,
        foreach_batch_merge=theirs.as_dict(),
        cpu_times_peer_per_record=round(ours.cpu_s / ours.records / (theirs.cpu_s / theirs.records), 3),
    )


if __name__ == "__main__":
    main()
