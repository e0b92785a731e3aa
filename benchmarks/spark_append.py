"""Topic -> Delta table: 1,000,000 changes of 400 bytes (JSON without schemas), appended; beside plain Structured Streaming.

Both sides run from nothing until every row is in the table, on two cores, with the same Spark, jars and memory.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from benchmarks.environment import JSON, BenchmarkEnvironment, environment
from benchmarks.measure import Figures, Measured, report
from sluice.embedded.jars import ensure_jars, folder_of, jar_set

RECORDS = int(os.environ.get("SLUICE_BENCH_RECORDS", "1000000"))
_MEMORY = "1500m"
_TIMEOUT_S = 300.0


def change(i: int) -> bytes:
    """One change event as Debezium's PostgreSQL connector writes it."""
    after = {
        "id": i,
        "first_name": f"first{i}",
        "last_name": f"last{i}",
        "email": f"user{i}@example.com",
        "balance": f"{i % 10000 / 100:.2f}",
        "score": i % 5000 / 7,
        "active": i % 2 == 0,
        "notes": "x" * 20,
    }
    source = {"connector": "postgresql", "ts_ms": 1_700_000_000_000 + i, "db": "shop", "schema": "public", "table": "t", "lsn": i}
    event = {"before": None, "after": after, "source": source, "op": "c", "ts_ms": 1_700_000_000_000 + i}
    return json.dumps(event, separators=(",", ":")).encode()


def rows_in(table: Path) -> int:
    """Rows that the table's log says it has."""
    rows = 0
    for log in sorted((table / "_delta_log").glob("*.json")):
        for line in log.read_text(encoding="utf-8").splitlines():
            added = json.loads(line).get("add")
            if added:
                rows += json.loads(added["stats"])["numRecords"]
    return rows


def _fill(here: BenchmarkEnvironment, topic: str) -> float:
    producer, size = here.producer(), 0
    for i in range(RECORDS):
        value = change(i)
        size += len(value)
        while True:
            try:
                producer.produce(topic, value, b'{"id":%d}' % i)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    return size / RECORDS


def _ours(here: BenchmarkEnvironment, topic: str, jars: str) -> Figures:
    lake = here.home / "ours"
    connector = {
        "name": "lake",
        "connector.class": "SparkSink",
        "tasks.max": "1",
        "topics": topic,
        "spark.master": "local[2]",
        "spark.jars": jars,
        "spark.conf.spark.driver.memory": _MEMORY,
        "table.location": str(lake),
        "write.mode": "append",
    }
    worker = {"key.converter": JSON, "value.converter": JSON}
    worker |= {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}
    command, _ = here.worker_command(worker, [connector])
    with Measured(command, here.home / "ours.log") as measured:
        measured.wait_until(lambda: rows_in(lake / topic) > 0, _TIMEOUT_S, 0.1)
        measured.mark_first()
        measured.wait_until(lambda: rows_in(lake / topic) >= RECORDS, _TIMEOUT_S, 0.1)
        return measured.figures(RECORDS)


def _theirs(here: BenchmarkEnvironment, topic: str, jars: str) -> Figures:
    lake = here.home / "theirs"
    command = [sys.executable, "-m", "benchmarks.structured_streaming", here.broker.bootstrap, topic, str(lake), jars, _MEMORY]
    with Measured(command, here.home / "theirs.log") as measured:
        measured.wait_until(lambda: rows_in(lake / "table") >= RECORDS, _TIMEOUT_S, 0.1)
        return measured.figures(RECORDS)


def main() -> None:
    ensure_jars("spark")
    jars = str(folder_of(jar_set("spark")))
    with environment() as here:
        topic = here.create_topic("changes")
        size = _fill(here, topic)
        theirs = _theirs(here, topic, jars)
        ours = _ours(here, topic, jars)
    report(
        "spark_append",
        ours,
        None,
        bytes_per_record=round(size),
        structured_streaming=theirs.as_dict(),
        rate_times_peer=round(theirs.wall_s / ours.wall_s, 2),
        cpu_times_peer=round(ours.cpu_s / theirs.cpu_s, 2),
    )


if __name__ == "__main__":
    main()
