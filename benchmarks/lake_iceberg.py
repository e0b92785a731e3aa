"""Topic -> Iceberg table, beside the same work for a Delta table, Iceberg's sink for Apache Kafka Connect, and Spark's own append
to an Iceberg table.

1,000,000 change events of 400 bytes are appended (``SLUICE_BENCH_RECORDS``), from the launch of a worker to the last row; then
commits of 1,000 changes follow, one after the other, into a table that is appended to and into one of 200,000 rows that is
upserted. The peer reads the same rows from a Parquet file, so it neither consumes nor decodes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.delta_log import LakeLog, TableLog
from benchmarks.environment import BenchmarkEnvironment, environment
from benchmarks.iceberg_connect import iceberg_connect
from benchmarks.iceberg_log import IcebergLog
from benchmarks.lake_events import EventFormat, RandomChanges, inserts, produce
from benchmarks.lake_worker import (
    MEMORY,
    TIMEOUT_S,
    Flow,
    create_topics,
    event_format,
    follow_load,
    lake_worker,
    number,
    sink,
    spark_jars,
)
from benchmarks.measure import Figures, Measured, report
from sluice.embedded.jars import ensure_jars, folder_of, jar_set

RECORDS = number("RECORDS", 1_000_000)
ROWS = number("ROWS", 200_000)
COMMITS = number("COMMITS", 40)
_WARM_UP = 10
_COMMIT_CHANGES = 1_000
_LOAD_MS, _SMALL_MS = 10_000, 200
_LOGS: dict[str, Callable[[Path], LakeLog]] = {"delta": TableLog, "iceberg": IcebergLog}


def _append(here: BenchmarkEnvironment, form: EventFormat, table_format: str) -> tuple[Figures, dict[str, Any], Path]:
    lake = here.home / f"append-{table_format}"
    config = sink(f"lake-{table_format}", ["changes"], lake, "append", _LOAD_MS, **{"table.format": table_format})
    with lake_worker(here, form, [config], lake) as worker:
        flow = follow_load(worker, _LOGS[table_format](lake / "changes"), RECORDS)
        return worker.process.figures(RECORDS), flow.as_dict(), lake / "changes"


def _small_commits(here: BenchmarkEnvironment, form: EventFormat, table_format: str, mode: str) -> dict[str, Any]:
    topic = f"small-{mode}-{table_format}"
    create_topics(here, [topic])
    producer, changes = here.producer(), RandomChanges(form, ROWS)
    produce(producer, topic, inserts(form, ROWS, b"r"))
    lake = here.home / topic
    more = {"table.format": table_format, "unavailable.value": "null"}
    with lake_worker(here, form, [sink(topic, [topic], lake, mode, _SMALL_MS, **more)], lake) as worker:
        log = _LOGS[table_format](lake / topic)
        worker.wait_for_event(log, ROWS)
        cpu_s = 0.0
        for commit in range(_WARM_UP + COMMITS):
            if commit == _WARM_UP:
                cpu_s = worker.process.cpu_s()
            produce(producer, topic, changes.take(_COMMIT_CHANGES))
            worker.wait_for_event(log, changes.last)
        cpu_s = worker.process.cpu_s() - cpu_s
    return {"commits": COMMITS, "cpu_ms_per_1000_changes": round(cpu_s * 1000 / COMMITS)}


def _spark_append(here: BenchmarkEnvironment, source: Path) -> Figures:
    """Spark appends the rows of a folder of Parquet files to a new Iceberg table."""
    jars = [spark_jars(), str(folder_of(jar_set("spark-iceberg")))]
    command = [sys.executable, "-m", "benchmarks.spark_iceberg_append", str(source), str(here.home / "theirs"), MEMORY, *jars]
    with Measured(command, here.home / "theirs.log") as measured:
        log = IcebergLog(here.home / "theirs" / "db" / "changes")
        measured.wait_until(lambda: log.read().rows >= RECORDS, TIMEOUT_S, 0.1)
        return measured.figures(RECORDS)


def _iceberg_sink(here: BenchmarkEnvironment) -> dict[str, Any]:
    """Iceberg's own sink, in a worker of Apache Kafka Connect, appends the rows of the same topic."""
    with iceberg_connect(here, "changes", _LOAD_MS // 2) as sink_:
        sink_.wait_for_rows(1, TIMEOUT_S)
        rows, cpu_s, started = sink_.log.rows, sink_.process.cpu_s(), time.monotonic()
        sink_.wait_for_rows(RECORDS, TIMEOUT_S)
        flow = Flow(RECORDS - rows, time.monotonic() - started, sink_.process.cpu_s() - cpu_s)
        return {**sink_.process.figures(RECORDS).as_dict(), "flowing": flow.as_dict()}


def main() -> None:
    ensure_jars("spark-iceberg")
    form = event_format()
    with environment() as here:
        create_topics(here, ["changes"])
        size = produce(here.producer(), "changes", inserts(form, RECORDS))
        delta, delta_flow, source = _append(here, form, "delta")
        ours, flow, _ = _append(here, form, "iceberg")
        theirs = _spark_append(here, source)
        iceberg_sink = _iceberg_sink(here)
        small = {
            f"{mode}_{table_format}": _small_commits(here, form, table_format, mode)
            for mode in ("append", "upsert")
            for table_format in ("delta", "iceberg")
        }
    report(
        "lake_iceberg",
        ours,
        None,
        bytes_per_record=size,
        flowing=flow,
        delta={**delta.as_dict(), "flowing": delta_flow},
        iceberg_sink=iceberg_sink,
        spark_append=theirs.as_dict(),
        small_commits=small,
    )


if __name__ == "__main__":
    main()
