"""600 connectors, a sixth of them sinks, on one distributed worker: wall and CPU time of ``GET /metrics`` and of
``GET /connectors?expand=status``. On a busy machine, only the CPU times mean something."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeVar

from benchmarks.cluster import FILE_SINK, FILE_SOURCE, BenchCluster, ClusterWorker, seconds_until
from benchmarks.environment import BenchmarkEnvironment, environment

T = TypeVar("T")

COUNT = 600
SCRAPES, STATUS_REQUESTS = 30, 200
SETTLE_S = 10.0
RUNNING_S = 600.0
ASKED = {"scrape_ms": 100, "expand_status_p50_ms": 10}


def connectors(here: BenchmarkEnvironment) -> Iterator[Mapping[str, str]]:
    source = here.home / "in.txt"
    source.write_text("a line\n", encoding="ascii")
    for number in range(COUNT):
        if number % 6:
            yield {"connector.class": FILE_SOURCE, "tasks.max": "1", "file": str(source), "topic": "lines"}
        else:
            sink = here.home / f"out-{number}.txt"
            yield {"connector.class": FILE_SINK, "tasks.max": "1", "file": str(sink), "topics": "lines"}


def cores_used(worker: ClusterWorker, work: Callable[[], T]) -> tuple[float, T]:
    """Returns the cores that all processes of the worker used meanwhile, and the result of the work."""
    cpu_s, started_at = worker.process.cpu_s(), time.monotonic()
    result = work()
    return (worker.process.cpu_s() - cpu_s) / (time.monotonic() - started_at), result


def main() -> None:
    with environment() as here:
        here.create_topic("lines")
        with BenchCluster(here, {}).workers() as (worker,):
            began_at = time.monotonic()
            for number, config in enumerate(connectors(here)):
                worker.change("PUT", f"/connectors/connector-{number}/config", config)
            created_s = time.monotonic() - began_at
            started_s = seconds_until(worker, partial(worker.all_running, COUNT), RUNNING_S)
            time.sleep(SETTLE_S)
            worker.milliseconds("/metrics", 1)  # the first scrape imports and creates what it needs
            idle_cores = cores_used(worker, lambda: time.sleep(SETTLE_S))[0]
            scrape_cores, scrape = cores_used(worker, lambda: worker.milliseconds("/metrics", SCRAPES))
            _, page = worker.ask("GET", "/metrics")
            status_cores, status = cores_used(worker, lambda: worker.milliseconds("/connectors?expand=status", STATUS_REQUESTS))
            _, statuses = worker.ask("GET", "/connectors?expand=status")
    line = {
        "benchmark": "metrics_scrape",
        "connectors": COUNT,
        "scrapes": SCRAPES,
        "status_requests": STATUS_REQUESTS,
        "samples": sum(not text.startswith(b"#") for text in page.splitlines()),
        "scrape_p50_ms": round(scrape[len(scrape) // 2], 1),
        "scrape_max_ms": round(scrape[-1], 1),
        "scrape_cpu_ms": round((scrape_cores - idle_cores) * sum(scrape) / len(scrape), 1),
        "scrape_bytes": len(page),
        "expand_status_p50_ms": round(status[len(status) // 2], 1),
        "expand_status_max_ms": round(status[-1], 1),
        "expand_status_cpu_ms": round((status_cores - idle_cores) * sum(status) / len(status), 1),
        "expand_status_bytes": len(statuses),
        "idle_cores": round(idle_cores, 4),
        "created_s": round(created_s, 1),
        "last_running_after_s": round(started_s, 1),
        "asked": ASKED,
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
