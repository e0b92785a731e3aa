"""Streams of changes for benchmarks: a worker with a source, writers at a steady rate, and latencies."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from confluent_kafka import Consumer, TopicPartition

from benchmarks.environment import JSON, BenchmarkEnvironment, rest, source_config
from benchmarks.measure import Figures, Measured
from sluice.embedded.postgres import EmbeddedPostgres

LOG_APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
PLAIN_JSON = {
    "key.converter": JSON,
    "value.converter": JSON,
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
}


@dataclass
class ChangeStream:
    """A worker that streams the changes of a database."""

    environment: BenchmarkEnvironment
    worker: Measured

    def await_end(self, topics: Sequence[str], count: int, timeout_s: float) -> None:
        """Waits until the topics have this many records together."""
        self.worker.wait_until(lambda: sum(map(self.environment.end_offset, topics)) >= count, timeout_s)

    def measure(
        self, work: Callable[[], int], await_s: float, topics: Sequence[str], *, is_one_transaction: bool = False
    ) -> Figures:
        """Figures of the worker while ``work`` changes rows, until all changes are in the topics. ``work`` returns their
        number. The wall time of one transaction begins with its commit, because the server sends nothing before."""
        found = sum(map(self.environment.end_offset, topics))
        cpu_before, started = self.worker.cpu_s(), time.monotonic()
        count = work()
        if is_one_transaction:
            started = time.monotonic()
        self.await_end(topics, found + count, await_s)
        figures = self.worker.figures(count)
        return Figures(count, time.monotonic() - started, figures.cpu_s - cpu_before, figures.peak_rss_mb)


def change_stream(
    here: BenchmarkEnvironment, server: EmbeddedPostgres, **config: str
) -> contextlib.AbstractContextManager[ChangeStream]:
    """Runs a worker with the PostgreSQL source until the end of the block."""
    source = source_config(server, "bench", **{"snapshot.mode": "no_data", "slot.drop.on.stop": "true", **config})
    return running_stream(here, source)


@contextlib.contextmanager
def running_stream(here: BenchmarkEnvironment, source: Mapping[str, str]) -> Iterator[ChangeStream]:
    """Runs a worker until the end of the block; its connector, named bench, has caught up with the database at first."""
    command, port = here.worker_command(PLAIN_JSON, [source])
    with Measured(command, here.home / "log") as worker:
        worker.wait_until(lambda: is_streaming(rest(port, "/sluice/connectors/bench/progress")), 60)
        yield ChangeStream(here, worker)


def is_streaming(progress: Any) -> bool:
    """Whether the answer of the REST API says that the connector's task streams."""
    return bool(progress) and any(task.get("details", {}).get("phase") == "streaming" for task in progress.get("tasks", []))


def at_rate(per_s: float, count: int, run: Callable[[int], object]) -> None:
    """Calls ``run`` with each number below ``count``, at most ``per_s`` times a second; late calls follow at once."""
    due = time.monotonic()
    for i in range(count):
        run(i)
        due += 1 / per_s
        if (left := due - time.monotonic()) > 0:
            time.sleep(left)


def source_time_us(value: Mapping[str, Any]) -> int:
    """The time of a commit in the source block, in microseconds since 1970."""
    return int(value["source"]["ts_us"])


def latencies_ms(
    here: BenchmarkEnvironment, starts: Mapping[str, int], committed_us: Callable[[Any], int] = source_time_us
) -> list[float]:
    """Per record from an offset of each topic on: the time from the commit in the database to the broker's timestamp, in ms.

    ``committed_us`` returns the time of the commit, in microseconds since 1970, from a record's value.
    """
    consumer = Consumer({"bootstrap.servers": here.broker.bootstrap, "group.id": "latency", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, start) for topic, start in starts.items()])
    left = sum(here.end_offset(topic) - start for topic, start in starts.items())
    found: list[float] = []
    while len(found) < left:
        for message in consumer.consume(5000, 5.0):
            value = message.value()
            since_us = committed_us(orjson.loads(value)) if value else message.timestamp()[1] * 1000
            found.append(message.timestamp()[1] - since_us / 1000)
    consumer.close()
    return found


def spread_ms(found: Sequence[float]) -> dict[str, float]:
    """The figures of latencies that a result line has."""
    quantiles = statistics.quantiles(found, n=100)
    return {"p50": round(quantiles[49], 1), "p99": round(quantiles[98], 1)}
