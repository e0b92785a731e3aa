"""From launching a distributed worker to its REST API telling that it is healthy, that is joined to its group, on a quiet broker:
the first of a new cluster, which makes the three topics, and starts of one that was there before. Medians of five."""

from __future__ import annotations

import json
import statistics
import time

from benchmarks.cluster import BenchCluster
from benchmarks.scene import scene

STARTS = 5


def main() -> None:
    with scene() as here:
        fresh: list[float] = []
        again: list[float] = []
        cpu: list[float] = []
        for _ in range(STARTS):
            cluster = BenchCluster(here)
            for seconds in (fresh, again):
                begun = time.monotonic()
                with cluster.workers() as (worker,):
                    seconds.append(time.monotonic() - begun)
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
