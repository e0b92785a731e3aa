"""100 idle connectors on one distributed worker with default settings: memory, threads, and CPU time of all its processes.
Sources of unchanging files, and sinks of an idle topic; Apache's worker was measured with such sources."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import partial

from benchmarks.cluster import FILE_SINK, FILE_SOURCE, BenchCluster, memory, seconds_until
from benchmarks.environment import BenchmarkEnvironment, environment

COUNT = 100
IDLE_S = 30.0
SETTLE_S = 25.0
"""More than an interval of commits, and so long that sinks of quiet topics wait longer for records."""
APACHE = {"rss_mb": 534, "threads": 335, "idle_cores": 0.065}
ASKED = {"rss_mb": 300, "idle_cores": 0.05}


def sources(here: BenchmarkEnvironment) -> list[Mapping[str, str]]:
    found: list[Mapping[str, str]] = []
    for number in range(COUNT):
        path = here.home / f"in-{number}.txt"
        path.write_text("a line\n", encoding="ascii")
        found.append({"connector.class": FILE_SOURCE, "tasks.max": "1", "file": str(path), "topic": "lines"})
    return found


def sinks(here: BenchmarkEnvironment) -> list[Mapping[str, str]]:
    return [
        {"connector.class": FILE_SINK, "tasks.max": "1", "file": str(here.home / f"out-{number}.txt"), "topics": "lines"}
        for number in range(COUNT)
    ]


def main() -> None:
    for kind, configs in (("source", sources), ("sink", sinks)):
        for executors in (None, "0"):
            with environment() as here:
                here.create_topic("lines")
                settings = {} if executors is None else {"task.executors": executors}
                with BenchCluster(here, settings).workers() as (worker,):
                    alone = memory(worker.process.child.pid)
                    for number, config in enumerate(configs(here)):
                        worker.change("PUT", f"/connectors/{kind}-{number}/config", config)
                    started_s = seconds_until(worker, partial(worker.all_running, COUNT), 120)
                    time.sleep(SETTLE_S)
                    cpu_s, started_at = worker.process.cpu_s(), time.monotonic()
                    time.sleep(IDLE_S)
                    cores = (worker.process.cpu_s() - cpu_s) / (time.monotonic() - started_at)
                    found = memory(worker.process.child.pid)
                line = {
                    "benchmark": f"idle_{kind}_connectors",
                    "executors": executors or "default",
                    "connectors": COUNT,
                    "rss_mb": found.rss_mb,
                    "pss_mb": found.pss_mb,
                    "idle_cores": round(cores, 4),
                    "threads": found.threads,
                    "processes": found.processes,
                    "rss_mb_before": alone.rss_mb,
                    "last_running_after_s": round(started_s, 2),
                    "asked": ASKED,
                    "apache": APACHE if kind == "source" else None,
                }
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
