"""Topic -> Delta table, appended; beside plain Structured Streaming in one batch.

1,000,000 change events of 400 bytes; ``SLUICE_BENCH_RECORDS=5000000`` for more, ``SLUICE_BENCH_SCHEMAS=1`` for JSON with schemas.
Both sides run from nothing until every row is in the table, on two cores, with the same Spark, JARs, and memory. ``flowing`` is
the time between the first and the last table commit. ``two_tasks`` is one worker with two tasks and four partitions.
``small_commit`` is a commit of 1,000 rows.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.delta_log import TableLog
from benchmarks.environment import BenchmarkEnvironment, environment
from benchmarks.lake_events import EventFormat, inserts, produce
from benchmarks.lake_worker import (
    MEMORY,
    TIMEOUT_S,
    Flow,
    create_topics,
    event_format,
    follow_load,
    lake_worker,
    number,
    sink,
    spark_jars,
)
from benchmarks.measure import Figures, Measured, report

RECORDS = number("RECORDS", 1_000_000)
COMMITS = number("COMMITS", 50)
COMMIT_ROWS = 1_000
PARTITIONS = 4
# A load should fill its commits: five seconds, the default.
_LOAD_MS = 10_000
_SMALL_MS = 200


def _load(here: BenchmarkEnvironment, form: EventFormat, topic: str, tasks: int) -> tuple[Figures, Flow]:
    """Appends a topic from launch to the last row."""
    lake = here.home / f"tasks-{tasks}"
    with lake_worker(here, form, [sink("lake", [topic], lake, "append", _LOAD_MS, **{"tasks.max": str(tasks)})], lake) as worker:
        flow = follow_load(worker, worker.log(topic), RECORDS)
        return worker.process.figures(RECORDS), flow


def _small_commits(here: BenchmarkEnvironment, form: EventFormat) -> dict[str, Any]:
    """Commits of 1,000 rows, one after the other, into a table of 100,000 rows."""
    create_topics(here, ["small"])
    producer, before = here.producer(), 100_000
    messages = inserts(form, before + (COMMITS + 10) * COMMIT_ROWS)
    produce(producer, "small", (next(messages) for _ in range(before)))
    lake = here.home / "small-commits"
    with lake_worker(here, form, [sink("lake", ["small"], lake, "append", _SMALL_MS)], lake) as worker:
        log = worker.log("small")
        worker.wait_for_event(log, before)
        cpu_s, commits, event = 0.0, 0, before
        for i in range(COMMITS + 10):
            if i == 10:  # the JVM has compiled its code
                cpu_s, commits = worker.process.cpu_s(), len(log.commits)
            produce(producer, "small", (next(messages) for _ in range(COMMIT_ROWS)))
            event += COMMIT_ROWS
            worker.wait_for_event(log, event)
        done = len(log.commits) - commits
        cpu_s = worker.process.cpu_s() - cpu_s
    return {
        "commits": done,
        "rows_per_commit": round(COMMITS * COMMIT_ROWS / done),
        "cpu_ms_per_1000_rows": round(cpu_s * 1000 / COMMITS),
    }


def _structured_streaming(here: BenchmarkEnvironment, form: EventFormat, topic: str) -> Figures:
    lake = here.home / "theirs"
    flags = ["schemas"] if form.schemas else []
    bootstrap = here.broker.bootstrap
    command = [sys.executable, "-m", "benchmarks.structured_streaming", bootstrap, topic, str(lake), spark_jars(), MEMORY, *flags]
    log = TableLog(lake / "table")
    with Measured(command, here.home / "theirs.log") as measured:
        measured.wait_until(lambda: log.read().rows >= RECORDS, TIMEOUT_S, 0.1)
        return measured.figures(RECORDS)


def main() -> None:
    form = event_format()
    with environment() as here:
        create_topics(here, ["changes"])
        create_topics(here, ["spread"], PARTITIONS)
        size = produce(here.producer(), "changes", inserts(form, RECORDS))
        produce(here.producer(), "spread", inserts(form, RECORDS), PARTITIONS)
        theirs = _structured_streaming(here, form, "changes")
        ours, flow = _load(here, form, "changes", 1)
        two, two_flow = _load(here, form, "spread", 2)
        small = _small_commits(here, form)
    report(
        "lake_append",
        ours,
        None,
        bytes_per_record=size,
        flowing=flow.as_dict(),
        two_tasks={**two.as_dict(), "flowing": two_flow.as_dict()},
        small_commit=small,
        structured_streaming=theirs.as_dict(),
        rate_times_peer=round(theirs.wall_s / ours.wall_s, 2),
        cpu_times_peer=round(ours.cpu_s / theirs.cpu_s, 2),
    )


if __name__ == "__main__":
    main()
