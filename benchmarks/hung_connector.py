"""A connector that hangs in start, poll, put, stop, or its validation ("config"): latencies of REST, CPU time, and memory of the
worker, against the same worker without it; and whether the other connector of the worker delivers all of its records meanwhile.
On a busy machine, only the CPU times mean something."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from benchmarks.cluster import BenchCluster, ClusterWorker, memory
from benchmarks.environment import BenchmarkEnvironment, environment
from benchmarks.hanging import SINK, SOURCE
from benchmarks.measure import quantiles

ROUNDS = 60
RECORDS = 20_000
PATHS = (
    "/", "/connectors?expand=status&expand=info", "/connectors/other-{case}/status", "/connectors/other-{case}/config",
    "/sluice/connectors/other-{case}/progress", "/metrics", "/sluice/progress?connectors=other-{case}",
)  # fmt: skip
HUNG: Mapping[str, Mapping[str, str]] = {
    "nothing": {},
    "start": {"connector.class": SOURCE},
    "poll": {"connector.class": SOURCE},
    "put": {"connector.class": SINK, "topics": "hung-lines"},
    "stop": {"connector.class": SOURCE},
    "config": {"connector.class": SOURCE},
}
ASKED = {"max_ms": 100}


def reaches(worker: ClusterWorker, name: str, state: str) -> bool:
    status, body = worker.ask("GET", f"/connectors/{name}/status")
    if status != 200:
        return False
    tasks = json.loads(body)["tasks"]
    return bool(tasks) and all(task["state"] == state for task in tasks)


@contextlib.contextmanager
def hanging(worker: ClusterWorker, case: str) -> Iterator[None]:
    """Has the call hang, and ends what hangs afterwards."""
    name, path = f"hung-{case}", f"/connectors/hung-{case}/config"
    config = {**HUNG[case], "tasks.max": "1", "hangs.in": case}
    if case == "config":
        # The request waits until the worker gives up on the validation.
        other = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=120)
        other.connect()
        other.request("PUT", path, json.dumps(config), {"Content-Type": "application/json"})
        yield
        other.close()
        return
    if case != "nothing":
        worker.change("PUT", path, config)
        if case not in ("start",):
            worker.process.wait_until(partial(reaches, worker, name, "RUNNING"), 60)
    if case == "stop":
        deletion = threading.Thread(target=partial(delete, worker.port, name), name="deletion")
        deletion.start()
        yield
        deletion.join()
        return
    yield
    if case != "nothing":
        worker.change("DELETE", f"/connectors/{name}")


def delete(port: int, name: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("DELETE", f"/connectors/{name}")
    connection.getresponse().read()
    connection.close()


def measure(here: BenchmarkEnvironment, worker: ClusterWorker, case: str) -> dict[str, Any]:
    topic = here.create_topic(f"other-{case}")
    with hanging(worker, case):
        cpu_s, started_at = worker.process.cpu_s(), time.monotonic()
        config = {"connector.class": "Datagen", "quickstart": "users", "topic": topic, "max.interval": "0", "count": str(RECORDS)}
        created_at = time.perf_counter()
        worker.change("PUT", f"/connectors/other-{case}/config", {**config, "tasks.max": "1"})
        change_ms = (time.perf_counter() - created_at) * 1000
        found = [ms for _ in range(ROUNDS) for path in PATHS for ms in worker.milliseconds(path.format(case=case), 1)]
        worker.process.wait_until(lambda: here.end_offset(topic) >= RECORDS, 120)
        line = {
            "hangs_in": case,
            **{f"{name}_ms": value for name, value in quantiles(found, 1).items()},
            "create_another_ms": round(change_ms, 1),
            "cpu_s": round(worker.process.cpu_s() - cpu_s, 2),
            "wall_s": round(time.monotonic() - started_at, 2),
            "rss_mb": memory(worker.process.child.pid).rss_mb,
            "others_records": here.end_offset(topic),
        }
    worker.change("DELETE", f"/connectors/other-{case}")
    return line


def main() -> None:
    with environment() as here:
        here.create_topic("hung-lines")
        producer = here.producer()
        producer.produce("hung-lines", b"a line")
        producer.flush()
        with BenchCluster(here, {"task.shutdown.graceful.timeout.ms": "2000"}).workers() as (worker,):
            for path in PATHS:  # the first requests import and create what they need
                worker.ask("GET", path.format(case="nothing"))
            found = [measure(here, worker, case) for case in HUNG]
    line = {"benchmark": "hung_connector", "records": RECORDS, "requests": ROUNDS * len(PATHS), "cases": found, "asked": ASKED}
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
