"""100 upsert tables by one connector (``SLUICE_BENCH_TABLES``): memory, CPU, and freshness.

Each table has 1,000 rows. Then 1,000 random changes a second (``SLUICE_BENCH_RATE``) are spread over all of them for 30 seconds
(``SLUICE_BENCH_SECONDS``).
"""

from __future__ import annotations

from benchmarks.environment import environment
from benchmarks.lake_events import inserts, produce
from benchmarks.lake_freshness import measure, tracked
from benchmarks.lake_worker import create_topics, event_format, lake_worker, number, sink
from benchmarks.measure import report

TABLES = number("TABLES", 100)
RATE = number("RATE", 1_000)
ROWS = 1_000
_FRESH_MS = 20_000


def main() -> None:
    form = event_format()
    with environment() as here:
        lake = here.home / "lake"
        topics = [f"table{i:03d}" for i in range(TABLES)]
        create_topics(here, topics)
        producer = here.producer()
        for topic in topics:
            produce(producer, topic, inserts(form, ROWS, b"r"))
        with lake_worker(here, form, [sink("tables", topics, lake, "upsert", _FRESH_MS)], lake) as worker:
            tables = tracked(worker, form, topics, ROWS)
            for table in tables:
                worker.wait_for_event(table.log, ROWS)
            loaded = worker.process.figures(TABLES * ROWS)
            changed = measure(worker, "tables", producer, RATE, tables)
            figures = worker.process.figures(TABLES * ROWS + sum(len(table.times_ms) for table in tables))
    report("lake_tables", figures, None, tables=TABLES, first_load=loaded.as_dict(), changes=changed)


if __name__ == "__main__":
    main()
