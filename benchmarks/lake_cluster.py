"""A backlog on a Spark cluster, with one and with two workers of one core each; beside the sink's own engine, without a cluster.

500,000 change events of 400 bytes in four partitions, appended to a Delta table; ``SLUICE_BENCH_RECORDS=5000000`` for more.
Each worker has half a core (``SLUICE_BENCH_WORKER_PERCENT``, by Linux's control groups): an executor, the driver, and the broker
need more than one core between them, so on a machine with two cores, two workers would share what one has. 0 sets no limit.

Rates are those between the first and the last of about five commits (``flowing``), so the start of Spark and of the executors
does not count. ``speedup`` is the rate of two workers divided by that of one. ``job_ms`` is the time from a few records until
they are visible: the fixed cost of a job and its commit.
"""

from __future__ import annotations

import itertools
import statistics
import time
from typing import Any

from benchmarks.cpu_limit import limit_cpu
from benchmarks.environment import BenchmarkEnvironment, environment
from benchmarks.lake_events import EventFormat, inserts, produce
from benchmarks.lake_worker import LakeWorker, create_topics, event_format, follow_load, lake_worker, number, sink
from benchmarks.measure import report, tree_cpu_s
from sluice.embedded.spark_cluster import EmbeddedSparkCluster

RECORDS = number("RECORDS", 500_000)
JOBS = number("JOBS", 10)
WORKER_PERCENT = number("WORKER_PERCENT", 50)
PARTITIONS = 4
_COMMITS = 5
_TOPIC = "backlog"
_LOAD_MS = 10_000
_SMALL = 10
# Enough for the rows of one commit.
_EXECUTOR_MEMORY = "1500m"


def _load_with_cluster(here: BenchmarkEnvironment, form: EventFormat, workers: int) -> dict[str, Any]:
    cluster = EmbeddedSparkCluster(
        here.home / f"spark-{workers}", workers=workers, memory=_EXECUTOR_MEMORY, dies_with_parent=True
    )
    with cluster, limit_cpu([server.pid or 0 for server in cluster.workers], WORKER_PERCENT):
        settings = {
            **cluster.connector_settings(),
            "spark.conf.spark.executor.memory": _EXECUTOR_MEMORY,
            # As in a real cluster.
            "spark.conf.spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
            "spark.engine": "executors",
            "executors.max.records": str(RECORDS // _COMMITS),
        }
        lake = here.home / f"workers-{workers}"
        # A connector of its own, whose group begins at the first record.
        with lake_worker(here, form, [sink(lake.name, [_TOPIC], lake, "append", _LOAD_MS, **settings)], lake) as worker:
            flow = follow_load(worker, worker.log(_TOPIC), RECORDS)
            cluster_cpu_s = sum(tree_cpu_s(server.pid or 0) for server in cluster.workers)
            figures = {"flowing": flow.as_dict(), "cluster_cpu_s": round(cluster_cpu_s, 1)}
            return figures | {"worker_cpu_s": round(worker.process.figures(RECORDS).cpu_s, 1)}


def _job_ms(here: BenchmarkEnvironment, form: EventFormat) -> dict[str, float]:
    """Jobs of a few records, one after the other."""
    create_topics(here, ["small"], PARTITIONS)
    messages = inserts(form, (JOBS + 3) * _SMALL)
    with EmbeddedSparkCluster(here.home / "spark-small", dies_with_parent=True) as cluster:
        settings = {**cluster.connector_settings(), "spark.engine": "executors"}
        lake = here.home / "small"
        with lake_worker(here, form, [sink("lake", ["small"], lake, "append", 100, **settings)], lake) as worker:
            taken = [_time_job(here, worker, messages, number_) for number_ in range(JOBS + 3)]
    warm = sorted(taken[3:])
    return {"p50": round(statistics.median(warm)), "max": round(warm[-1])}


def _time_job(here: BenchmarkEnvironment, worker: LakeWorker, messages: Any, number_: int) -> float:
    produce(here.producer(), "small", itertools.islice(messages, _SMALL))
    started = time.monotonic()
    worker.wait_for_rows(worker.log("small"), (number_ + 1) * _SMALL)
    return (time.monotonic() - started) * 1000


def main() -> None:
    form = event_format()
    with environment() as here:
        create_topics(here, [_TOPIC], PARTITIONS)
        size = produce(here.producer(**{"compression.type": "lz4"}), _TOPIC, inserts(form, RECORDS))
        one, two = (_load_with_cluster(here, form, workers) for workers in (1, 2))
        lake = here.home / "own-engine"
        with lake_worker(here, form, [sink(lake.name, [_TOPIC], lake, "append", _LOAD_MS)], lake) as worker:
            flow = follow_load(worker, worker.log(_TOPIC), RECORDS)
            own = worker.process.figures(RECORDS)
        speedup = two["flowing"]["records_per_s"] / one["flowing"]["records_per_s"]
        report(
            "lake_cluster",
            own,
            None,
            bytes_per_record=size,
            flowing=flow.as_dict(),
            one_worker=one,
            two_workers=two,
            speedup=round(speedup, 2),
            worker_percent=WORKER_PERCENT,
            job_ms=_job_ms(here, form),
        )


if __name__ == "__main__":
    main()
