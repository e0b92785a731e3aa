"""600 connectors, a sixth of them sinks, on one distributed worker: time of ``GET /metrics`` and of
``GET /connectors?expand=status``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from functools import partial

from benchmarks.cluster import FILE_SINK, FILE_SOURCE, BenchCluster, seconds_until
from benchmarks.environment import BenchmarkEnvironment, environment

COUNT = 600
ROUNDS = 30
SETTLE_S = 10.0
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


def main() -> None:
    with environment() as here:
        here.create_topic("lines")
        with BenchCluster(here, {}).workers() as (worker,):
            for number, config in enumerate(connectors(here)):
                worker.change("PUT", f"/connectors/connector-{number}/config", config)
            started_s = seconds_until(worker, partial(worker.all_running, COUNT), 600)
            time.sleep(SETTLE_S)
            worker.milliseconds("/metrics", 1)  # the first scrape imports and creates what it needs
            scrape = worker.milliseconds("/metrics", ROUNDS)
            _, page = worker.ask("GET", "/metrics")
            status = worker.milliseconds("/connectors?expand=status", ROUNDS)
            _, statuses = worker.ask("GET", "/connectors?expand=status")
    line = {
        "benchmark": "metrics_scrape",
        "connectors": COUNT,
        "samples": sum(not text.startswith(b"#") for text in page.splitlines()),
        "scrape_p50_ms": round(scrape[len(scrape) // 2], 1),
        "scrape_max_ms": round(scrape[-1], 1),
        "scrape_bytes": len(page),
        "expand_status_p50_ms": round(status[len(status) // 2], 1),
        "expand_status_max_ms": round(status[-1], 1),
        "expand_status_bytes": len(statuses),
        "last_running_after_s": round(started_s, 1),
        "asked": ASKED,
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
