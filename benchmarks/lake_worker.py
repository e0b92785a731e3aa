"""Shared by the benchmarks of the lake: the worker with Spark sinks, and what is measured while it runs."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.delta_log import LakeLog, TableLog
from benchmarks.environment import BenchmarkEnvironment, rest
from benchmarks.lake_events import EventFormat
from benchmarks.measure import Measured
from connectors.spark.config_keys import config_def
from sluice.embedded.jars import ensure_jars, folder_of, jar_set

MEMORY = "1500m"
"""Of Spark's JVM, on both sides of a comparison."""
TIMEOUT_S = 900.0
_FRESHNESS = "freshness.ms"


def number(name: str, default: int) -> int:
    """A parameter: the environment variable ``SLUICE_BENCH_<name>``."""
    return int(os.environ.get(f"SLUICE_BENCH_{name}", str(default)))


def event_format() -> EventFormat:
    """JSON without schemas; with them if ``SLUICE_BENCH_SCHEMAS`` is 1."""
    return EventFormat(schemas=number("SCHEMAS", 0) == 1)


def spark_jars() -> str:
    ensure_jars("spark")
    return str(folder_of(jar_set("spark")))


def create_topics(here: BenchmarkEnvironment, names: Sequence[str], partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": here.broker.bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions, 1) for name in names]).values():
        future.result(60)


def sink(name: str, topics: Sequence[str], lake: Path, mode: str, fresh_ms: int, **more: str) -> dict[str, str]:
    """A sink's configuration. ``SLUICE_BENCH_SINK`` has further keys, as a JSON object."""
    known = _FRESHNESS in config_def().keys
    extra = json.loads(os.environ.get("SLUICE_BENCH_SINK", "{}"))
    return {
        "name": name,
        "connector.class": "SparkSink",
        "tasks.max": "1",
        "topics": ",".join(topics),
        "spark.master": "local[2]",
        "spark.jars": spark_jars(),
        "spark.conf.spark.driver.memory": MEMORY,
        "table.location": str(lake),
        "write.mode": mode,
        # Without a target, the commit starts after half of the time.
        **({_FRESHNESS: str(fresh_ms)} if known else {"commit.interval.ms": str(fresh_ms // 2)}),
        **more,
        **extra,
    }


@dataclass(frozen=True, slots=True)
class LakeWorker:
    """A running worker and its tables."""

    process: Measured
    port: int
    lake: Path

    def log(self, table: str) -> TableLog:
        return TableLog(self.lake / table)

    def wait_for_event(self, log: LakeLog, event: int) -> None:
        """Waits until the table has the event, and with it all earlier ones."""
        self.process.wait_until(lambda: log.read().last_event >= event, TIMEOUT_S, 0.01)

    def wait_for_rows(self, log: LakeLog, rows: int) -> None:
        self.process.wait_until(lambda: log.read().rows >= rows, TIMEOUT_S, 0.05)

    def latency_ms(self, connector: str) -> dict[str, float] | None:
        """The product's own figures of freshness; of the slowest task."""
        answer = rest(self.port, f"/sluice/connectors/{connector}/progress") or {}
        found = [task.get("details", {}).get("latency_ms") for task in answer.get("tasks", [])]
        shown = [latency for latency in found if latency]
        return {q: round(max(latency[q] for latency in shown)) for q in ("p50", "p99")} if shown else None


@contextlib.contextmanager
def lake_worker(
    here: BenchmarkEnvironment, form: EventFormat, connectors: Sequence[Mapping[str, str]], lake: Path
) -> Iterator[LakeWorker]:
    """Runs a standalone worker with these connectors through its command line."""
    command, port = here.worker_command(form.converter, list(connectors))
    with Measured(command, here.home / f"{lake.name}.log") as process:
        yield LakeWorker(process, port, lake)


@dataclass(frozen=True, slots=True)
class Flow:
    """What happened between the first and the last table commit."""

    records: int
    wall_s: float
    cpu_s: float

    def as_dict(self) -> dict[str, Any]:
        return {
            "records": self.records,
            "wall_s": round(self.wall_s, 2),
            "cpu_s": round(self.cpu_s, 2),
            "records_per_s": round(self.records / self.wall_s) if self.wall_s else None,
            "records_per_cpu_s": round(self.records / self.cpu_s) if self.cpu_s else None,
        }


def follow_load(worker: LakeWorker, log: LakeLog, rows: int) -> Flow:
    """Waits until the table has all rows. The flow starts with the first commit, whose rows do not count."""
    worker.wait_for_rows(log, 1)
    first, first_ms, cpu_s = log.rows, log.commits[-1].visible_ms, worker.process.cpu_s()
    worker.process.mark_first()
    worker.wait_for_rows(log, rows)
    return Flow(rows - first, (log.commits[-1].visible_ms - first_ms) / 1000, worker.process.cpu_s() - cpu_s)
