"""Backlog: a topic that is already full into a table, by the worker and by Spark's executors (``spark.engine``).

1,000,000 change events of 400 bytes in four partitions (``SLUICE_BENCH_RECORDS``), appended; ``SLUICE_BENCH_MODE=upsert`` for an
upsert table. Both run from nothing until every row is in the table, on ``local[2]``. ``job_ms`` is the time of jobs with one
record each on a warm Spark, which is their fixed cost; the first ones are left out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from benchmarks.environment import BenchmarkEnvironment, environment, rest
from benchmarks.lake_events import EventFormat, inserts, produce
from benchmarks.lake_worker import TIMEOUT_S, LakeWorker, create_topics, event_format, follow_load, lake_worker, number, sink
from benchmarks.measure import Figures, report

RECORDS = number("RECORDS", 1_000_000)
JOBS = number("JOBS", 20)
MODE = os.environ.get("SLUICE_BENCH_MODE", "append")
PARTITIONS = 4
EXECUTORS = "executors"
_WARM_UP = 5
_FRESH_MS = 1_000


def _load(here: BenchmarkEnvironment, form: EventFormat, engine: str) -> tuple[Figures, dict[str, Any], list[float]]:
    lake = here.home / engine
    # A connector of its own, whose group begins at the first record.
    more = {"spark.engine": engine, "compaction.min.files": "0"}
    with lake_worker(here, form, [sink(engine, ["backlog"], lake, MODE, _FRESH_MS, **more)], lake) as worker:
        log = worker.log("backlog")
        flow = follow_load(worker, log, RECORDS)
        figures = worker.process.figures(RECORDS)
        shown = {**figures.as_dict(), "flowing": flow.as_dict(), "commits": len(log.commits)}
        return figures, shown, _small_jobs(here, form, worker) if engine == EXECUTORS else []


def _small_jobs(here: BenchmarkEnvironment, form: EventFormat, worker: LakeWorker) -> list[float]:
    """The durations of jobs with one record."""
    producer, found = here.producer(), []
    messages = inserts(form, RECORDS + JOBS)
    for _ in range(RECORDS):
        next(messages)
    for message in messages:
        jobs = _engine(worker)["jobs"]
        produce(producer, "backlog", iter([message]), PARTITIONS)
        worker.process.wait_until(partial(_has_run_more, worker, jobs), TIMEOUT_S, 0.05)
        found.append(float(_engine(worker)["last_job_ms"]))
    return sorted(found[_WARM_UP:])


def _has_run_more(worker: LakeWorker, jobs: int) -> bool:
    return int(_engine(worker).get("jobs", 0)) > jobs


def _engine(worker: LakeWorker) -> Mapping[str, Any]:
    answer = rest(worker.port, f"/sluice/connectors/{EXECUTORS}/progress") or {}
    for task in answer.get("tasks", []):
        engine: Mapping[str, Any] = task.get("details", {}).get("engine", {})
        return engine
    return {}


def main() -> None:
    form = event_format()
    with environment() as here:
        create_topics(here, ["backlog"], PARTITIONS)
        size = produce(here.producer(), "backlog", inserts(form, RECORDS), PARTITIONS)
        by_worker, shown, _ = _load(here, form, "worker")
        ours, flowing, jobs = _load(here, form, EXECUTORS)
    report(
        "lake_backlog",
        ours,
        None,
        mode=MODE,
        bytes_per_record=size,
        executors=flowing,
        worker=shown,
        job_ms={"p50": jobs[len(jobs) // 2], "max": jobs[-1]} if jobs else None,
        cpu_times_worker=round(ours.cpu_s / by_worker.cpu_s, 2),
        rate_times_worker=round(by_worker.wall_s / ours.wall_s, 2),
    )


if __name__ == "__main__":
    main()
