"""First load: a topic of snapshot events into an upsert table, from nothing; beside Structured Streaming, which only appends.

610,000 rows, as in the demo (``SLUICE_BENCH_RECORDS``), JSON with schemas (``SLUICE_BENCH_SCHEMAS=0``: without).
"""

from __future__ import annotations

import sys

from benchmarks.delta_log import TableLog
from benchmarks.environment import environment
from benchmarks.lake_events import EventFormat, inserts, produce
from benchmarks.lake_worker import MEMORY, TIMEOUT_S, create_topics, follow_load, lake_worker, number, sink, spark_jars
from benchmarks.measure import Measured, report

RECORDS = number("RECORDS", 610_000)
_TOPIC = "snapshot"
_FRESH_MS = 2_000


def main() -> None:
    form = EventFormat(schemas=number("SCHEMAS", 1) == 1)
    with environment() as here:
        create_topics(here, [_TOPIC])
        size = produce(here.producer(**{"compression.type": "lz4"}), _TOPIC, inserts(form, RECORDS, b"r"))
        command = [
            sys.executable,
            "-m",
            "benchmarks.structured_streaming",
            here.broker.bootstrap,
            _TOPIC,
            str(here.home / "theirs"),
        ]
        command += [spark_jars(), MEMORY, *(["schemas"] if form.schemas else [])]
        appended = TableLog(here.home / "theirs" / "table")
        with Measured(command, here.home / "theirs.log") as measured:
            measured.wait_until(lambda: appended.read().rows >= RECORDS, TIMEOUT_S, 0.1)
            theirs = measured.figures(RECORDS)
        lake = here.home / "ours"
        with lake_worker(here, form, [sink("lake", [_TOPIC], lake, "upsert", _FRESH_MS)], lake) as worker:
            log = worker.log(_TOPIC)
            flow = follow_load(worker, log, RECORDS)
            ours = worker.process.figures(RECORDS)
    report(
        "lake_load",
        ours,
        None,
        bytes_per_record=size,
        schemas=form.schemas,
        commits=len(log.commits),
        flowing=flow.as_dict(),
        structured_streaming_append=theirs.as_dict(),
        rate_times_peer=round(theirs.wall_s / ours.wall_s, 2),
        cpu_times_peer=round(ours.cpu_s / theirs.cpu_s, 2),
    )


if __name__ == "__main__":
    main()
