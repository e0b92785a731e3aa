"""Freshness: from an event's time in the source until it is visible in its table.

1,000 events a second into an append table, then into an upsert table, then 10,000 a second over four upsert tables, 30 seconds
each (``SLUICE_BENCH_SECONDS``), in one worker with a connector each. Upsert tables have 100,000 rows and receive random changes.
``freshness_ms`` comes from the times of the files in the tables' logs; ``freshness_ms_by_worker`` is what the worker reports.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer

from benchmarks.delta_log import TableLog, freshness_ms
from benchmarks.environment import environment
from benchmarks.lake_events import EventFormat, Message, RandomChanges, inserts, produce, produce_at_rate
from benchmarks.lake_worker import LakeWorker, create_topics, event_format, lake_worker, number, sink
from benchmarks.measure import quantiles, report

ROWS = number("ROWS", 100_000)
SECONDS = number("SECONDS", 30)
_WARM_UP_ROUNDS = 5
_APPEND, _UPSERT = "appended", "upserted"
_FOUR = tuple(f"four{i}" for i in range(4))


@dataclass
class TrackedTable:
    """A table, its changes, and the times of those that were produced at a steady rate."""

    topic: str
    log: TableLog
    changes: RandomChanges
    first: int = 0
    times_ms: list[float] = field(default_factory=list)

    def take(self, count: int, *, is_last: bool = False) -> list[tuple[str, Message]]:
        now_ms = time.time() * 1000
        self.times_ms += [now_ms] * count
        return [(self.topic, message) for message in self.changes.take(count, int(now_ms), ends_in_update=is_last)]

    def start(self) -> None:
        self.first = self.changes.last + 1

    def freshness_ms(self) -> list[float]:
        return freshness_ms(self.log.commits, self.first, self.times_ms)


def warm_up(worker: LakeWorker, producer: Producer, tables: Sequence[TrackedTable]) -> None:
    """Waits until the initial rows and a few small commits are in the tables: connectors run for long."""
    for round_ in range(_WARM_UP_ROUNDS + 1):
        for table in tables:
            if round_:
                produce(producer, table.topic, table.changes.take(1_000))
        for table in tables:
            worker.wait_for_event(table.log, table.changes.last)


def measure(worker: LakeWorker, connector: str, producer: Producer, rate: int, tables: Sequence[TrackedTable]) -> dict[str, Any]:
    """Produces at this rate, spread evenly over the tables."""
    for table in tables:
        table.start()

    turns = itertools.cycle(tables)

    def take(count: int) -> list[tuple[str, Message]]:
        return [one for table in itertools.islice(turns, count) for one in table.take(1)]

    commits = sum(len(table.log.commits) for table in tables)
    cpu_s, started = worker.process.cpu_s(), time.monotonic()
    reached = produce_at_rate(producer, rate, SECONDS, take)
    for table in tables:
        produce(producer, table.topic, [message for _, message in table.take(1, is_last=True)])
    for table in tables:
        worker.wait_for_event(table.log, table.changes.last)
    cpu_s, wall_s = worker.process.cpu_s() - cpu_s, time.monotonic() - started
    return {
        "events_per_s": round(reached),
        "wall_s": round(wall_s, 1),
        "cores": round(cpu_s / wall_s, 2),
        "commits": sum(len(table.log.commits) for table in tables) - commits,
        "freshness_ms": quantiles([ms for table in tables for ms in table.freshness_ms()]),
        "freshness_ms_by_worker": worker.latency_ms(connector),
    }


def tracked(worker: LakeWorker, form: EventFormat, topics: Sequence[str], rows: int) -> list[TrackedTable]:
    return [TrackedTable(topic, worker.log(topic), RandomChanges(form, rows, seed=i)) for i, topic in enumerate(topics)]


def main() -> None:
    form = event_format()
    with environment() as here:
        lake = here.home / "lake"
        topics = (_APPEND, _UPSERT, *_FOUR)
        create_topics(here, topics)
        producer = here.producer()
        for topic in topics:
            produce(producer, topic, inserts(form, ROWS, b"r"))
        connectors = [
            sink("append", [_APPEND], lake, "append", 1_000),
            sink("upsert", [_UPSERT], lake, "upsert", 2_000),
            sink("four", _FOUR, lake, "upsert", 5_000),
        ]
        with lake_worker(here, form, connectors, lake) as worker:
            tables = tracked(worker, form, topics, ROWS)
            warm_up(worker, producer, tables)
            append = measure(worker, "append", producer, 1_000, tables[:1])
            upsert = measure(worker, "upsert", producer, 1_000, tables[1:2])
            four = measure(worker, "four", producer, 10_000, tables[2:])
            figures = worker.process.figures(sum(len(table.times_ms) for table in tables))
    report("lake_freshness", figures, None, rows=ROWS, append=append, upsert=upsert, four_tables=four)


if __name__ == "__main__":
    main()
