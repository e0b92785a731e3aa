"""Time from launching a distributed worker until its REST API reports that it is healthy (has joined its group), on an idle
broker:
for a new cluster, which creates three topics, and for an existing one. Medians of five."""

from __future__ import annotations

import json
import statistics
import time

from benchmarks.cluster import BenchCluster
from benchmarks.environment import environment

STARTS = 5


def main() -> None:
    with environment() as here:
        fresh: list[float] = []
        again: list[float] = []
        cpu: list[float] = []
        for _ in range(STARTS):
            cluster = BenchCluster(here)
            for seconds in (fresh, again):
                started_at = time.monotonic()
                with cluster.workers() as (worker,):
                    seconds.append(time.monotonic() - started_at)
                    cpu.append(worker.process.cpu_s())
        line = {
            "benchmark": "cluster_start",
            "new_cluster_s": round(statistics.median(fresh), 2),
            "new_cluster_least_s": round(min(fresh), 2),
            "again_s": round(statistics.median(again), 2),
            "again_least_s": round(min(again), 2),
            "cpu_s": round(min(cpu), 2),
            "asked_s": 2,
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
