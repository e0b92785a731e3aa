"""600 file sources on one and on two distributed workers: time to create them, REST lists, and the cost of adding and removing
one connector, which must restart nothing else. One line for each number of workers."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.cluster import FILE_SOURCE, BenchCluster, ClusterWorker, runs, seconds_until
from benchmarks.environment import BenchmarkEnvironment, environment

COUNT = 600
MORE = 5
LISTS = {"names": "/connectors", "status": "/connectors?expand=status", "all": "/connectors?expand=status&expand=info"}
ASKED = {"list_p50_ms": 20, "added_s": 2, "restarts": 0}
APACHE = {"connectors": 100, "list_p50_ms": 3.3}


def config(here: BenchmarkEnvironment, number: int) -> Mapping[str, Any]:
    path = here.home / f"in-{number}.txt"
    path.touch()
    return {"connector.class": FILE_SOURCE, "tasks.max": "1", "file": str(path), "topic": "lines"}


def until_running(worker: ClusterWorker, name: str) -> float:
    def is_there() -> bool:
        status, body = worker.ask("GET", f"/connectors/{name}/status")
        return status == 200 and runs(json.loads(body))

    return seconds_until(worker, is_there, 60)


def until_gone(worker: ClusterWorker, name: str) -> float:
    return seconds_until(worker, lambda: worker.ask("GET", f"/connectors/{name}/status")[0] == 404, 60)


def starts(workers: list[ClusterWorker]) -> int:
    """Returns the total number of started connectors and tasks, from the logs."""
    return sum(worker.process.log.read_text(errors="replace").count("Starting file source connector") for worker in workers)


def measured(here: BenchmarkEnvironment, count: int) -> dict[str, Any]:
    with BenchCluster(here).workers(count) as workers:
        worker = workers[0]
        started_at = time.monotonic()
        for number in range(COUNT):
            worker.change("PUT", f"/connectors/c{number:03}/config", config(here, number))
        created_s = time.monotonic() - started_at
        last_s = seconds_until(worker, lambda: worker.all_running(COUNT), 300)
        lists = {kind: round(statistics.median(worker.milliseconds(path, 100)), 1) for kind, path in LISTS.items()}
        before, started, added, removed = worker.statuses(), starts(workers), [], []
        for number in range(COUNT, COUNT + MORE):
            name, started_at = f"c{number:03}", time.monotonic()
            worker.change("PUT", f"/connectors/{name}/config", config(here, number))
            until_running(worker, name)
            added.append(time.monotonic() - started_at)
        for number in range(COUNT, COUNT + MORE):
            name, started_at = f"c{number:03}", time.monotonic()
            worker.change("DELETE", f"/connectors/{name}")
            until_gone(worker, name)
            removed.append(time.monotonic() - started_at)
        after = worker.statuses()
        return {
            "workers": count,
            "connectors": COUNT,
            "created_s": round(created_s, 1),
            "cpu_s": round(sum(one.process.cpu_s() for one in workers), 1),
            "last_running_after_s": round(last_s, 2),
            "list_p50_ms": lists,
            "added_s": round(statistics.median(added), 2),
            "removed_s": round(statistics.median(removed), 2),
            "restarts": starts(workers) - started - MORE,
            "other_statuses_changed": sum(before[name] != after.get(name) for name in before),
            "asked": ASKED,
            "apache": APACHE,
        }


def main() -> None:
    with environment() as here:
        here.create_topic("lines")
        for count in (1, 2):
            print(json.dumps({"benchmark": "cluster_scale", **measured(here, count)}), flush=True)


if __name__ == "__main__":
    main()
